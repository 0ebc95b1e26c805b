//! Loops of hundreds: a tenth of them by default, all under `cargo xtask test --thorough`.

/// What `cargo xtask test --thorough` sets.
const THOROUGH: &str = "WASMOUNT_TEST_THOROUGH";

/// The part of a loop that runs by default.
const PART: usize = 10;

/// How often a loop runs now that runs `whole` times in a thorough run.
pub fn rounds(whole: usize) -> usize {
    match std::env::var_os(THOROUGH) {
        Some(_) => whole,
        None => whole.div_ceil(PART),
    }
}

//! The number of rounds of long loops: a tenth by default, all under `cargo xtask test --thorough`.

/// The variable that `cargo xtask test --thorough` sets.
const THOROUGH: &str = "WASMOUNT_TEST_THOROUGH";

/// The divisor for the default number of rounds.
const PART: usize = 10;

/// The number of rounds now of a loop with `whole` rounds in a thorough run.
pub fn rounds(whole: usize) -> usize {
    match std::env::var_os(THOROUGH) {
        Some(_) => whole,
        None => whole.div_ceil(PART),
    }
}

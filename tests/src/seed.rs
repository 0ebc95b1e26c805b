//! Random numbers of tests, which a seed repeats.

use fastrand::Rng;
use std::env;
use xtask::failure::Failure;

/// Repeats a run: the seed that it printed.
const SEED: &str = "WASMOUNT_TEST_SEED";

/// Random numbers from the seed of the variable, or from a new one; prints which.
#[expect(
    clippy::print_stderr,
    reason = "the test runner captures what a test prints, and shows it when the test fails"
)]
pub fn seeded() -> Result<Rng, Failure> {
    let seed = match env::var(SEED) {
        Ok(text) => text
            .parse::<u64>()
            .map_err(Failure::cannot(format!("read {SEED}={text}")))?,
        Err(_) => fastrand::u64(..),
    };
    eprintln!("{SEED}={seed}");
    Ok(Rng::with_seed(seed))
}

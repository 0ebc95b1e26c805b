//! Tests that fill the processors or compare memory over time: they run after all others.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end where it fails"
)]

mod bench;
mod kill;
mod soak;
mod swaps;

//! Tests of the engine with real components: `plugins/directory`, which behaves, and `plugins/misbehave`, which does one bad thing at a time.
//! The store and the pools behind them are in memory and remember the order of what was asked of them.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a crate of tests: their helpers may panic as well"
)]

mod access;
mod answers;
mod harness;
mod isolation;
mod limits;
mod loading;
mod log;
#[allow(dead_code, reason = "tests of other crates ask more of it")]
mod memory;
mod migration;
mod plan;
mod secrets;
mod shapes;
mod speed;
mod state;
mod usage;

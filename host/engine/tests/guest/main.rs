//! Tests of the engine with real components: `plugins/directory`, which is correct, and `plugins/misbehave`, which makes one error at a time. The
//! store and the pools behind them are in memory and remember the order of their requests.
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
mod array;
mod facts;
mod golden;
mod harness;
mod isolation;
mod limits;
mod loading;
mod log;
#[allow(dead_code, reason = "tests of other crates ask more of it")]
mod memory;
mod migration;
mod network;
mod plan;
mod sealing;
mod secrets;
mod shapes;
mod speed;
mod state;
mod usage;

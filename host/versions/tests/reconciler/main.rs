//! The reconciler with the real engine, real components and real files: which version serves after each event.

#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a crate of tests: their helpers may panic as well"
)]

mod back;
mod bench;
mod converge;
mod elected;
mod engine;
mod faults;
#[allow(dead_code, reason = "this crate asks less of it than others do")]
#[path = "../../../engine/tests/guest/memory.rs"]
mod memory;
mod migrate;
mod migrate_anew;
mod migrate_back;
mod pools;
mod quiet;
mod refused;
mod restart;
mod restore;
mod share;
mod sources;
mod speed;
mod swap;
mod written;

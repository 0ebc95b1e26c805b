//! Disks of storage systems that the mounter attaches, against the kernel's own targets.
//!
//! The tests need root and a kernel with both: they run in the VM, one after another, and fail with one line elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "clippy exempts functions marked as tests, and not what they stand on"
)]

mod encryption;
mod host;
mod iscsi;
mod kills;
mod many;
mod nvme;
mod rbd;
mod start;
mod support;

/// The variable that `cargo xtask test --thorough` sets.
const THOROUGH: &str = "WASMOUNT_TEST_THOROUGH";

/// Whether loops run all of their rounds.
fn is_thorough() -> bool {
    std::env::var_os(THOROUGH).is_some()
}

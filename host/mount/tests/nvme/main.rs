//! NVMe over TCP against the kernel's own target (nvmet) on loopback: volumes of a host whose subsystem has one address or two.
//!
//! The tests need root and a kernel with both ends: they run in the VM, one after another, and fail with one line elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy exempts functions marked as tests, and not what they stand on"
)]

mod authentication;
mod host;
mod kernel;
mod lives;
mod others;
mod paths;
mod recovery;
mod target;

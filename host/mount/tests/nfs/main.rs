//! NFS against the kernel's own server and client: pools that the host mounts, and volumes on several mounts.
//!
//! The tests need root and a kernel with both: they run in the kernel lab, one after another, and fail with one line elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy exempts functions marked as tests, and not what they stand on"
)]

mod away;
mod host;
mod pools;
mod server;
mod two_kernels;
mod volumes;

#[path = "../attached/start.rs"]
mod start;

//! Disks of storage systems that the mounter attaches, against the kernel's own targets.
//!
//! The tests need root and a kernel with both: they run in the VM, one after another, and fail with one line elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy exempts functions marked as tests, and not what they stand on"
)]

mod host;
mod iscsi;
mod nvme;

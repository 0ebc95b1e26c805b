//! iSCSI against the kernel's own target (LIO) and the node's open-iscsi: sessions, disks and what is left of them.
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
mod lives;
mod login;
mod others;
mod recovery;
mod target;

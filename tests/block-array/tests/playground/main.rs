//! The array as vendors have it: its API, its files, and volumes over iSCSI by the kernel's own target and initiator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy exempts functions marked as tests, and not what they stand on"
)]

mod api;
mod client;
mod initiator;
mod iscsi;
mod program;

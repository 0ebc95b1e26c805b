//! The host beside a real API server: records, leader election, CSINode, events, manifests and StorageBackend objects.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end where it fails"
)]

mod control_plane;
mod controllers;
mod csi_node;
mod events;
mod manifests;
mod server;
mod storage_backends;

//! `wasmount manifests`, `deploy/` and the CSIDriver object against a real API server: every printed object is applied, the rights suffice and
//! the policy holds. One file a subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end where it fails"
)]

mod applied;
mod csi_driver;
mod neighbours;
mod policy;
mod running;
mod scene;
mod signed;
mod snapshots;

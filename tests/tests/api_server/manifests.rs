//! `wasmount manifests`, `deploy/` and the CSIDriver object against a real API server: every printed object is applied, the rights suffice and
//! the policy holds. One file a subject.

mod applied;
mod charts;
mod csi_driver;
mod neighbours;
mod node_set;
mod policy;
mod running;
pub(crate) mod scene;
mod signed;
mod snapshots;

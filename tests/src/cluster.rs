//! A whole cluster for tests: the one of `cargo xtask cluster`, with drivers and sidecars in it, and what a test asks of it.
//!
//! What is in there is real; nothing here plays kubelet or a sidecar.

pub mod drivers;
pub mod etcd;
pub mod lab;
pub mod leftovers;
pub mod listing;
pub mod objects;
pub mod pods;
pub mod scene;
pub mod sidecars;
pub mod swapped;
pub mod wait;

//! A Kubernetes cluster for tests: the one of `cargo xtask cluster`, with drivers and sidecars, and functions to examine it.
//!
//! All parts are real; kubelet and the sidecars are not simulated.

pub mod drivers;
pub mod etcd;
pub mod lab;
pub mod leftovers;
pub mod listing;
pub mod networked;
pub mod objects;
pub mod pods;
pub mod scene;
pub mod sidecars;
pub mod swapped;
pub mod wait;

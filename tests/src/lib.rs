//! Fixtures of the system tests: the real program, real mounts, csi-sanity. The tests are in `tests/tests`, one file for each promise of the project.
//!
//! The fixtures use no internals of the host: a test learns everything from the sockets, the kernel and the log.

#![forbid(unsafe_code)]

pub use wasmount_block_array as array;
pub use xtask::requests;

pub mod browser;
pub mod builds;
pub mod ceph;
pub mod child;
pub mod cinder;
pub mod cluster;
pub mod collector;
pub mod compiled;
pub mod control_plane;
pub mod copies;
pub mod directory_life;
pub mod documents;
pub mod fault_proxy;
pub mod guest_memory;
pub mod health;
pub mod host;
pub mod idle;
pub mod keys;
pub mod kinds;
mod lasting_thread;
pub mod leaks;
pub mod loop_devices;
pub mod loop_disk;
pub mod mounter;
pub mod multipath;
pub mod namespace;
pub mod orchestrator;
pub mod other_kernel;
pub mod outside;
pub mod peer;
pub mod pod_token;
pub mod program;
pub mod prometheus;
pub mod relay;
pub mod retrying_proxy;
pub mod root;
pub mod rounds;
pub mod sanity;
pub mod secret_search;
pub mod seed;
pub mod small_disk;
pub mod strace;
pub mod tls_front;

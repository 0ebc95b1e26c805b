//! The mounter's work on the node: a plan is checked against the administrator's grants, journaled, executed by file descriptor, verified, and
//! rolled back if a step fails; and the pools.
//!
//! It runs privileged, so it links neither gRPC, nor wasm, nor Kubernetes; a test of the workspace holds the list.
//!
//! ```text
//! local ──▶ stage, publish, teardown, expand, stats, health, recovery     one file for each request; blocking, on threads of the driver's own budget
//!             ├──▶ plan      checks the request and the plan against the grants: pure
//!             ├──▶ roots     a client's path as descriptors, never through a link; below kubelet's root only a `kubelet_path`
//!             ├──▶ source    makes a detached mount, or a raw device, of the plan's source; no process sees it yet
//!             │      ├──▶ attach  disks of storage systems: makes their devices appear, and removes them
//!             │      ├──▶ block   loop devices and devices of the node
//!             │      ├──▶ encryption  LUKS headers on them, and the maps that volumes show in their place
//!             │      └──▶ format  file systems on them: probe, mkfs, fsck, expand; with tools, under intents in durable
//!             ├──▶ executor  attaches and verifies it
//!             ├──▶ journal   intended and completed work, one file for each volume; stored by records, as durable is
//!             └──▶ ownership, in_use, kubelet_record     the owner of a mount or device without a record
//! local ──▶ without_document     at the start, recovery of drivers that no document names
//! local ──▶ config_drive     what OpenStack says of the node on a device that no volume may be
//! local ──▶ pool_places      no pool lies in another, or in a directory of the host itself
//! local ──▶ pool             trees and images for a backend, in directories or on servers that it mounts (`mounted`); `confine` opens a plugin's paths, `in_use` reports what is mounted
//!             └──▶ freeze   freezes the mounted file system of an image while it is copied
//! ```

#![forbid(unsafe_code)]

mod attach;
mod block;
mod config_drive;
mod confine;
mod connections;
mod durable;
mod encryption;
mod exclusive;
mod executor;
mod expand;
mod failure;
mod format;
mod freeze;
mod fs_context;
mod fs_type;
mod group;
mod health;
mod in_use;
mod initiator;
mod journal;
#[cfg(test)]
#[path = "tests/kernel.rs"]
#[allow(
    clippy::unwrap_used,
    reason = "clippy exempts functions marked as tests, and not what they stand on"
)]
mod kernel;
mod kubelet_path;
mod kubelet_record;
mod local;
mod mountinfo;
#[cfg(test)]
#[path = "tests/namespace.rs"]
#[allow(
    clippy::unwrap_used,
    reason = "clippy exempts functions marked as tests, and not what they stand on"
)]
mod namespace;
mod node;
mod node_facts;
mod observe;
mod ownership;
mod plan;
mod pool;
mod pool_places;
mod process_usage;
mod publish;
mod records;
mod recovery;
mod roots;
mod source;
mod stage;
mod stats;
mod stats_cache;
mod sysfs;
mod teardown;
mod threads;
mod tools;
mod walk;
mod without_document;

pub use failure::MountSetupError;
pub use local::{LocalMounter, MounterConfig};
pub use plan::judge;
pub use pool_places::OverlappingPools;
pub use process_usage::process_usage;
pub use roots::PathRoot;

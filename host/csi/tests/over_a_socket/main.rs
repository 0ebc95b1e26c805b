//! The CSI services as clients see them: a real Unix socket, real gRPC, a driver over a native backend and stores in memory.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test: clippy.toml allows it in test functions, the helpers beside them are meant too"
)]

mod by_name;
mod controller;
mod health;
mod hostile;
mod identity;
mod limits;
mod log;
mod node;
mod paging;
mod patience;
mod snapshot_metadata;
mod snapshots;
mod support;
mod swap;

//! The mounter against a real kernel: each test runs in its own mount namespace, so nothing is left on the machine.
//!
//! The tests need root, and fail without it. There is one binary, since linking takes longer than running.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy exempts functions marked as tests, and not what they stand on"
)]

mod attacks;
mod bench;
mod config_drive;
mod dead_pool;
mod dead_storage;
mod encryption;
mod files;
mod growth;
mod health;
mod hung;
mod images;
mod matrix;
mod modes;
mod moments;
mod neighbours;
mod node_facts;
mod one_volume;
mod out_of_order;
mod pools;
mod publish;
mod races;
mod recovery;
mod short_lived;
mod stage;
mod stats;
mod teardown;
mod volume;

#[path = "../attached/start.rs"]
mod start;

//! The driver over native fakes of backend, mounter and store: concurrency, calls that outlive their client, and which components are called.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod backend;
mod common;
mod concurrency;
mod controller;
mod faults;
mod health;
mod hooks;
mod life;
mod mounter;
mod node;
mod node_info;
mod node_register;
mod paging;
mod pod_info;
mod script;
mod served;
mod share;
mod snapshots;
mod state;
mod swap;

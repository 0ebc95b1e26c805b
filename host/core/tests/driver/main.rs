//! The driver over native fakes of backend, mount room and store: what runs beside what, what outlives whom, who is asked and who is not.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod backend;
mod concurrency;
mod controller;
mod faults;
mod health;
mod hooks;
mod life;
mod mounter;
mod node;
mod node_info;
mod paging;
mod pod_info;
mod script;
mod served;
mod snapshots;
mod state;
mod swap;
mod words;

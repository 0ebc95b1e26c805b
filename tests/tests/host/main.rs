//! A running host, with each kind of caller it has: clients of CSI, kubelet, administrators, plugins that misbehave.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end where it fails"
)]

mod admin;
mod config;
mod dashboard;
mod faults;
mod health_monitors;
mod image;
mod inline;
mod kubelet;
mod life;
mod looking_inside;
mod metrics;
mod misbehave;
mod mounter;
mod podfiles;
mod status_page;
mod traces;
mod userns;
mod wire;

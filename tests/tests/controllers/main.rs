//! Controllers of which several run: their records with a real API server, and the election of the one that works.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end where it fails"
)]

mod plane;
mod records;
mod replicas;
mod takeover;
mod withdrawal;

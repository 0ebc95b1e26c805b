//! The rules of this code base that no compiler holds: which crate may know which, what may be built in, how files look. Each rule is one
//! test, and its failure says what to do.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy takes only functions marked as tests for tests, not what they call"
)]

mod book;
mod circles;
mod contract;
mod crates;
mod dependencies;
mod docs;
mod security;
mod text;

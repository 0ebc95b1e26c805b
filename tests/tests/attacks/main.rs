//! Clients, pods and pools that mean harm: whatever they name, swap or plant, nothing is mounted outside of the path root, and nothing that
//! lies elsewhere is changed.

#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

mod decoy;
mod races;
mod words;

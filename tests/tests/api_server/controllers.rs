//! Controllers of which several run: their records with a real API server, and the election of the one that works.

mod plane;
mod records;
mod replicas;
mod sessions;
mod takeover;
mod withdrawal;

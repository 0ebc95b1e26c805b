//! The durable store behind `state`: small records with revisions, in one redb file of the data directory.
//!
//! ```text
//! put, remove ──▶ pending (memory, visible at once) ──sync──▶ committer thread ──one durable commit──▶ redb file
//! get, scan   ──▶ pending over redb
//! ```
//!
//! A second store, on Kubernetes objects, implements the same trait, so this is a crate. It does not know what is stored.

#![forbid(unsafe_code)]

mod committer;
mod database;
mod lock;
mod pending;
mod store;

pub use database::OpenError;
pub use lock::{DataDirLock, LockError};
pub use store::RedbStore;

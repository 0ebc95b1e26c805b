//! Snapshots of one volume.
//!
//! It does not list them: that is [`crate::SnapshotListing`], which many backends cannot.

use crate::bindings::snapshots::exports::wasmount::csi::snapshots::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::{Snapshot, SnapshotId};

pub use crate::bindings::snapshots::exports::wasmount::csi::snapshots::CreateSnapshotArgs;

/// The interface `snapshots`.
pub trait Snapshots: 'static {
    /// `CreateSnapshot`: idempotent by name. The same name with another source: `already-exists`.
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error>;

    /// `DeleteSnapshot`: a snapshot that does not exist is deleted already.
    fn delete_snapshot(id: SnapshotId) -> Result<(), Error>;

    /// `GetSnapshot`, and `ListSnapshots` by id.
    fn get_snapshot(id: SnapshotId) -> Result<Snapshot, Error>;
}

impl<T: Snapshots> Guest for Adapter<T> {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        T::create_snapshot(args)
    }

    fn delete_snapshot(id: SnapshotId) -> Result<(), Error> {
        T::delete_snapshot(id)
    }

    fn get_snapshot(id: SnapshotId) -> Result<Snapshot, Error> {
        T::get_snapshot(id)
    }
}

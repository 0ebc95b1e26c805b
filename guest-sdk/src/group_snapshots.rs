//! Snapshots of several volumes at one moment.
//!
//! Its members are snapshots like others; [`crate::Snapshots`] serves them one by one.

use crate::bindings::group_snapshots::exports::wasmount::csi::group_snapshots::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::SnapshotId;

pub use crate::bindings::group_snapshots::exports::wasmount::csi::group_snapshots::{
    CreateGroupArgs, GroupSnapshot,
};

/// The interface `group-snapshots`.
pub trait GroupSnapshots: 'static {
    /// `CreateVolumeGroupSnapshot`: idempotent by name, all or nothing.
    fn create_group_snapshot(args: CreateGroupArgs) -> Result<GroupSnapshot, Error>;

    /// `DeleteVolumeGroupSnapshot`: with its members. `snapshots`: those that the caller knows to be in it.
    fn delete_group_snapshot(id: String, snapshots: Vec<SnapshotId>) -> Result<(), Error>;

    /// `GetVolumeGroupSnapshot`.
    fn get_group_snapshot(id: String, snapshots: Vec<SnapshotId>) -> Result<GroupSnapshot, Error>;
}

impl<T: GroupSnapshots> Guest for Adapter<T> {
    fn create_group_snapshot(args: CreateGroupArgs) -> Result<GroupSnapshot, Error> {
        T::create_group_snapshot(args)
    }

    fn delete_group_snapshot(id: String, snapshots: Vec<SnapshotId>) -> Result<(), Error> {
        T::delete_group_snapshot(id, snapshots)
    }

    fn get_group_snapshot(id: String, snapshots: Vec<SnapshotId>) -> Result<GroupSnapshot, Error> {
        T::get_group_snapshot(id, snapshots)
    }
}

//! Listing snapshots.
//!
//! A list by id never arrives here: the host asks [`crate::Snapshots`].

use crate::bindings::snapshot_listing::exports::wasmount::csi::snapshot_listing::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::Snapshot;

pub use crate::bindings::snapshot_listing::exports::wasmount::csi::snapshot_listing::{
    ListSnapshotsArgs, SnapshotPage,
};

/// The interface `snapshot-listing`.
pub trait SnapshotListing: 'static {
    /// `ListSnapshots`: one page, of all or of one source. An unknown source has none; a token that is not known any more: `aborted`.
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error>;
}

impl<T: SnapshotListing> Guest for Adapter<T> {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        T::list_snapshots(args)
    }
}

impl From<(Vec<Snapshot>, Option<String>)> for SnapshotPage {
    /// What [`crate::state::page`] found.
    fn from((entries, next_token): (Vec<Snapshot>, Option<String>)) -> Self {
        Self {
            entries,
            next_token,
        }
    }
}

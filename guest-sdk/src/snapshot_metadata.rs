//! Which parts of a snapshot hold data, and what differs between two: for backup tools.
//!
//! It does not stream: it answers pages, the host streams them.

use crate::bindings::snapshot_metadata::exports::wasmount::csi::snapshot_metadata::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::pool::Extents;
use crate::volume::SnapshotId;

pub use crate::bindings::snapshot_metadata::exports::wasmount::csi::snapshot_metadata::{
    BlockType, MetadataPage,
};

/// The interface `snapshot-metadata`.
pub trait SnapshotMetadata: 'static {
    /// `GetMetadataAllocated`: extents with data from `offset` (in bytes) on, at most `max_extents`.
    fn get_allocated(
        snapshot: SnapshotId,
        offset: u64,
        max_extents: u32,
    ) -> Result<MetadataPage, Error>;

    /// `GetMetadataDelta`: extents that differ between two snapshots of one volume, from `offset` (in bytes) on, at most `max_extents`.
    fn get_delta(
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max_extents: u32,
    ) -> Result<MetadataPage, Error>;
}

impl<T: SnapshotMetadata> Guest for Adapter<T> {
    fn get_allocated(
        snapshot: SnapshotId,
        offset: u64,
        max_extents: u32,
    ) -> Result<MetadataPage, Error> {
        T::get_allocated(snapshot, offset, max_extents)
    }

    fn get_delta(
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max_extents: u32,
    ) -> Result<MetadataPage, Error> {
        T::get_delta(base, target, offset, max_extents)
    }
}

impl MetadataPage {
    /// What the pool says of a snapshot that is an image, as it is.
    pub fn new(volume_capacity_bytes: u64, extents: Extents) -> Self {
        Self {
            block_type: BlockType::VariableLength,
            volume_capacity_bytes,
            extents: extents.ranges,
            next_offset: extents.next_offset,
        }
    }
}

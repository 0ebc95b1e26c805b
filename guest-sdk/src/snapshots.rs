//! The services of snapshots: single ones, lists, groups, and metadata about their contents.

use crate::pool::Extents;
use crate::volume::Snapshot;

/// The interface `group-snapshots`: snapshots of several volumes at one moment. Its members are served one by one by [`Snapshots`].
#[doc(inline)]
pub use crate::bindings::group_snapshots::interface::Guest as GroupSnapshots;
pub use crate::bindings::group_snapshots::interface::{CreateGroupArgs, GroupSnapshot};
/// The interface `snapshot-listing`. The host answers a list by id through [`Snapshots`].
#[doc(inline)]
pub use crate::bindings::snapshot_listing::interface::Guest as SnapshotListing;
pub use crate::bindings::snapshot_listing::interface::{ListSnapshotsArgs, SnapshotPage};
/// The interface `snapshot-metadata`: which parts of a snapshot hold data, and which differ between two. It returns pages, the host streams them.
#[doc(inline)]
pub use crate::bindings::snapshot_metadata::interface::Guest as SnapshotMetadata;
pub use crate::bindings::snapshot_metadata::interface::{BlockType, MetadataPage};
pub use crate::bindings::snapshots::interface::CreateSnapshotArgs;
/// The interface `snapshots`. Lists are a separate service, [`SnapshotListing`], which many backends cannot offer.
#[doc(inline)]
pub use crate::bindings::snapshots::interface::Guest as Snapshots;

impl From<(Vec<Snapshot>, Option<String>)> for SnapshotPage {
    /// The page that [`crate::state::page`] returned.
    fn from((entries, next_token): (Vec<Snapshot>, Option<String>)) -> Self {
        Self {
            entries,
            next_token,
        }
    }
}

impl MetadataPage {
    /// The extents of a snapshot that is an image, unchanged from the pool's answer.
    pub fn new(volume_capacity_bytes: u64, extents: Extents) -> Self {
        Self {
            block_type: BlockType::VariableLength,
            volume_capacity_bytes,
            extents: extents.ranges,
            next_offset: extents.next_offset,
        }
    }
}

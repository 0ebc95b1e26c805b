//! The services of snapshots: single ones, lists, groups, and metadata about their contents.

use crate::error::Error;
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

impl CreateSnapshotArgs {
    /// Rejects a snapshot that is there by the same name, with `already-exists`, if it is not of the same volume.
    pub fn must_be_of(&self, source_volume: Option<&str>) -> Result<(), Error> {
        if source_volume == Some(&self.source_volume) {
            return Ok(());
        }
        Err(Error::already_exists(
            "a snapshot of this name is there, of another volume: use another name",
        ))
    }
}

impl<E: IntoIterator<Item = Snapshot>> From<(E, Option<String>)> for SnapshotPage {
    /// A page, such as [`crate::state::page`] returned.
    fn from((entries, next_token): (E, Option<String>)) -> Self {
        Self {
            entries: entries.into_iter().collect(),
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::error::Code;

    /// What a client asks for.
    pub(crate) fn args(name: &str, source_volume: &str) -> CreateSnapshotArgs {
        CreateSnapshotArgs {
            name: name.to_owned(),
            source_volume: source_volume.to_owned(),
            parameters: Vec::new(),
            accessibility: None,
        }
    }

    #[test]
    fn a_name_is_that_of_one_volumes_snapshot() {
        let args = args("a", "volume");
        assert_eq!(args.must_be_of(Some("volume")), Ok(()));
        for other in [Some("other"), None] {
            let refused = args.must_be_of(other).map_err(|error| error.code);
            assert_eq!(refused, Err(Code::AlreadyExists), "{other:?}");
        }
    }
}

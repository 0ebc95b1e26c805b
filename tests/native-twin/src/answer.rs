//! Answers of the plugin as the host's types.
//!
//! The engine checks more, since a component may answer anything; here the compiler has checked the plugin's code with the host's.

use crate::bindings::exported::{
    capacity, controller, controller_expand, group_snapshots, node_info, snapshot_listing,
    snapshot_metadata, volume_health, volume_listing,
};
use crate::bindings::types;
use crate::convert::Convert;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{Available, Expanded, NodeDescription, Validation};
use wasmount_core::health::{Health, HealthStatus};
use wasmount_core::names::{GroupSnapshotId, InvalidField, NodeId, SnapshotId, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::snapshot::{BlockType, Extent, GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::topology::Topology;
use wasmount_core::volume::{
    ContentSource, Page, Volume, VolumeCondition, VolumeEntry, VolumeStatus,
};
use wasmount_guest::testing;

/// Converts an answer, or names the field that the host cannot take.
pub(crate) trait Parse<T> {
    fn parse(self) -> Result<T, InvalidField>;
}

impl<G: Parse<T>, T> Parse<Option<T>> for Option<G> {
    fn parse(self) -> Result<Option<T>, InvalidField> {
        self.map(G::parse).transpose()
    }
}

impl<G: Parse<T>, T> Parse<Vec<T>> for Vec<G> {
    fn parse(self) -> Result<Vec<T>, InvalidField> {
        self.into_iter().map(G::parse).collect()
    }
}

impl Parse<Attributes> for types::Attributes {
    fn parse(self) -> Result<Attributes, InvalidField> {
        Attributes::from_pairs("a map", self)
    }
}

macro_rules! unchanged {
    ($($type:ty),+) => {$(
        impl Parse<$type> for $type {
            fn parse(self) -> Result<$type, InvalidField> {
                Ok(self)
            }
        }
    )+};
}

unchanged!((), bool, u64, String);

macro_rules! identifiers {
    ($($type:ty),+) => {$(
        impl Parse<$type> for String {
            fn parse(self) -> Result<$type, InvalidField> {
                self.try_into()
            }
        }
    )+};
}

identifiers!(GroupSnapshotId, NodeId, SnapshotId, VolumeId);

/// Types that `convert` knows.
macro_rules! converted {
    ($($from:ty => $to:ty),+ $(,)?) => {$(
        impl Parse<$to> for $from {
            fn parse(self) -> Result<$to, InvalidField> {
                Ok(self.convert())
            }
        }
    )+};
}

converted! {
    snapshot_metadata::BlockType => BlockType,
    types::Extent => Extent,
    volume_health::HealthStatus => HealthStatus,
}

/// Types with the same fields.
macro_rules! structures {
    ($($from:path => $to:path { $($field:ident),+ $(,)? })+) => {$(
        impl Parse<$to> for $from {
            fn parse(self) -> Result<$to, InvalidField> {
                type To = $to;
                let $from { $($field),+ } = self;
                Ok(To { $($field: $field.parse()?),+ })
            }
        }
    )+};
}

structures! {
    types::Topology => Topology { segments }
    types::Volume => Volume { id, capacity_bytes, context, content_source, accessible_topology }
    types::VolumeCondition => VolumeCondition { abnormal, message }
    types::VolumeStatus => VolumeStatus { published_nodes, condition }
    types::VolumeEntry => VolumeEntry { volume, status }
    controller_expand::Expanded => Expanded { capacity_bytes, node_expansion_required }
    capacity::Available => Available { available_bytes, maximum_volume_bytes, minimum_volume_bytes }
    volume_listing::VolumePage => Page<VolumeEntry> { entries, next_token }
    snapshot_listing::SnapshotPage => Page<Snapshot> { entries, next_token }
    group_snapshots::GroupSnapshot => GroupSnapshot { id, snapshots, created_at, ready_to_use }
    snapshot_metadata::MetadataPage => MetadataPage { block_type, volume_capacity_bytes, extents, next_offset }
    volume_health::Health => Health { status, reason, message }
    node_info::NodeDescription => NodeDescription { id, max_volumes, topology }
}

impl Parse<Snapshot> for types::Snapshot {
    fn parse(self) -> Result<Snapshot, InvalidField> {
        let types::Snapshot {
            id,
            source_volume,
            size_bytes,
            created_at,
            ready_to_use,
            group_snapshot_id,
            accessible_topology,
        } = self;
        Ok(Snapshot {
            id: id.parse()?,
            source_volume: source_volume.parse()?,
            size_bytes,
            created_at,
            ready_to_use,
            group: group_snapshot_id.parse()?,
            accessible_topology: accessible_topology.parse()?,
        })
    }
}

impl Parse<Validation> for controller::Validation {
    fn parse(self) -> Result<Validation, InvalidField> {
        Ok(match self {
            controller::Validation::Confirmed => Validation::Confirmed,
            controller::Validation::Unsupported(reason) => Validation::Unsupported(reason),
        })
    }
}

impl Parse<ContentSource> for types::ContentSource {
    fn parse(self) -> Result<ContentSource, InvalidField> {
        match self {
            types::ContentSource::Snapshot(id) => Ok(ContentSource::Snapshot(id.parse()?)),
            types::ContentSource::Volume(id) => Ok(ContentSource::Volume(id.parse()?)),
            types::ContentSource::Other(_) => {
                Err(InvalidField::rule("content_source", "is of another kind"))
            }
        }
    }
}

/// With the sources that plugins/hostpath records.
impl Parse<Plan> for testing::RecordedPlan {
    fn parse(self) -> Result<Plan, InvalidField> {
        let testing::RecordedPlan {
            source,
            default_fs_type,
            mount_options,
            notes,
            luks: _,
        } = self;
        let source = match source {
            testing::Source::Directory { pool, path } => Source::Directory { pool, path },
            testing::Source::Image { pool, path } => Source::Image { pool, path },
            testing::Source::Tmpfs { size_bytes } => Source::Tmpfs { size_bytes },
            _ => return Err(InvalidField::rule("the source", "is not one of hostpath's")),
        };
        Ok(Plan {
            source,
            default_fs_type,
            mount_options,
            notes,
            luks: None,
        })
    }
}

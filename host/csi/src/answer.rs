//! From the core's words to the wire, one file a service; this one has what they share. Every struct is destructured without `..`, so that a new
//! field is not forgotten.

pub(crate) mod controller;
pub(crate) mod group_controller;
pub(crate) mod health;
pub(crate) mod identity;
pub(crate) mod node;
pub(crate) mod snapshot_metadata;

use crate::wire::csi::v1 as wire;
use wasmount_core::names::NodeId;
use wasmount_core::snapshot::Snapshot;
use wasmount_core::topology::Topology;
use wasmount_core::volume::{
    AccessMode, AccessType, ContentSource, MountAccess, Volume, VolumeCapability, VolumeCondition,
};
use wire::volume_capability::access_mode::Mode;
use wire::volume_capability::{AccessType as WireAccessType, BlockVolume, MountVolume};
use wire::volume_content_source::{SnapshotSource, Type as WireSource, VolumeSource};

/// Nanoseconds in a second.
const NANOSECONDS: u64 = 1_000_000_000;

/// The wire's numbers are signed; no storage holds the 8 EiB that end there.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn volume(volume: Volume) -> wire::Volume {
    let Volume {
        id,
        capacity_bytes,
        context,
        content_source,
        accessible_topology,
    } = volume;
    wire::Volume {
        capacity_bytes: signed(capacity_bytes),
        volume_id: id.into_string(),
        volume_context: context.into_map(),
        content_source: content_source.map(self::content_source),
        accessible_topology: accessible_topology.into_iter().map(topology).collect(),
    }
}

fn content_source(source: ContentSource) -> wire::VolumeContentSource {
    wire::VolumeContentSource {
        r#type: Some(match source {
            ContentSource::Snapshot(id) => WireSource::Snapshot(SnapshotSource {
                snapshot_id: id.into_string(),
            }),
            ContentSource::Volume(id) => WireSource::Volume(VolumeSource {
                volume_id: id.into_string(),
            }),
        }),
    }
}

fn topology(topology: Topology) -> wire::Topology {
    let Topology { segments } = topology;
    wire::Topology {
        segments: segments.into_map(),
    }
}

fn condition(condition: VolumeCondition) -> wire::VolumeCondition {
    let VolumeCondition { abnormal, message } = condition;
    wire::VolumeCondition { abnormal, message }
}

fn node_ids(nodes: Vec<NodeId>) -> Vec<String> {
    nodes.into_iter().map(NodeId::into_string).collect()
}

fn capability(capability: VolumeCapability) -> wire::VolumeCapability {
    let VolumeCapability {
        access_type,
        access_mode,
    } = capability;
    wire::VolumeCapability {
        access_type: match access_type {
            AccessType::Block => Some(WireAccessType::Block(BlockVolume {})),
            AccessType::Mount(MountAccess {
                fs_type,
                mount_flags,
                volume_mount_group,
            }) => Some(WireAccessType::Mount(MountVolume {
                fs_type: fs_type.unwrap_or_default(),
                mount_flags,
                volume_mount_group: volume_mount_group.unwrap_or_default(),
            })),
            // Not in these messages.
            AccessType::Other(_) => None,
        },
        access_mode: Some(wire::volume_capability::AccessMode {
            mode: mode(access_mode),
        }),
    }
}

fn mode(mode: AccessMode) -> i32 {
    match mode {
        AccessMode::SingleNodeWriter => Mode::SingleNodeWriter.into(),
        AccessMode::SingleNodeReaderOnly => Mode::SingleNodeReaderOnly.into(),
        AccessMode::MultiNodeReaderOnly => Mode::MultiNodeReaderOnly.into(),
        AccessMode::MultiNodeSingleWriter => Mode::MultiNodeSingleWriter.into(),
        AccessMode::MultiNodeMultiWriter => Mode::MultiNodeMultiWriter.into(),
        AccessMode::SingleNodeSingleWriter => Mode::SingleNodeSingleWriter.into(),
        AccessMode::SingleNodeMultiWriter => Mode::SingleNodeMultiWriter.into(),
        AccessMode::Other(number) => number.cast_signed(),
    }
}

fn snapshot(snapshot: Snapshot) -> wire::Snapshot {
    let Snapshot {
        id,
        source_volume,
        size_bytes,
        created_at,
        ready_to_use,
        group,
        accessible_topology,
    } = snapshot;
    wire::Snapshot {
        size_bytes: signed(size_bytes),
        snapshot_id: id.into_string(),
        source_volume_id: source_volume.into_string(),
        creation_time: Some(timestamp(created_at)),
        ready_to_use,
        group_snapshot_id: group.map(|group| group.into_string()).unwrap_or_default(),
        accessible_topology: accessible_topology.into_iter().map(topology).collect(),
    }
}

fn timestamp(nanoseconds: u64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: signed(nanoseconds / NANOSECONDS),
        // Below 10⁹, so it fits.
        nanos: (nanoseconds % NANOSECONDS) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_seconds_and_the_rest_in_nanoseconds() {
        let table = [
            (0, (0, 0)),
            (1_500_000_000, (1, 500_000_000)),
            (u64::MAX, (18_446_744_073, 709_551_615)),
        ];
        for (nanoseconds, expected) in table {
            let prost_types::Timestamp { seconds, nanos } = timestamp(nanoseconds);
            assert_eq!((seconds, nanos), expected);
        }
    }

    #[test]
    fn a_size_beyond_the_wire_is_the_largest_that_it_has() {
        assert_eq!(
            [signed(0), signed(i64::MAX as u64), signed(u64::MAX)],
            [0, i64::MAX, i64::MAX]
        );
    }
}

//! Converts the core's types to wire messages: volumes and snapshots. Every struct is destructured without `..`, so that a new field is not
//! forgotten.

mod capabilities;
mod node;

pub(crate) use capabilities::*;
pub(crate) use node::*;

use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use wasmount_core::backend::{Available, Expanded, ValidateVolume, Validation};
use wasmount_core::names::NodeId;
use wasmount_core::snapshot::{BlockType, Extent, GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::topology::Topology;
use wasmount_core::volume::{
    AccessMode, AccessType, ContentSource, MountAccess, Page, Volume, VolumeCapability,
    VolumeCondition, VolumeEntry, VolumeStatus,
};
use wire::volume_capability::access_mode::Mode;
use wire::volume_capability::{AccessType as WireAccessType, BlockVolume, MountVolume};
use wire::volume_content_source::{SnapshotSource, Type as WireSource, VolumeSource};

/// Nanoseconds in a second.
const NANOSECONDS: u64 = 1_000_000_000;

/// The numbers on the wire are signed; no storage holds the 8 EiB of their limit.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(crate) fn volume(volume: Volume) -> wire::Volume {
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

/// The fields that the statuses of a listed and of a single volume share.
fn status(status: VolumeStatus) -> (Vec<String>, Option<wire::VolumeCondition>) {
    let VolumeStatus {
        published_nodes,
        condition: health,
    } = status;
    let nodes = published_nodes.into_iter().map(NodeId::into_string);
    (nodes.collect(), health.map(condition))
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
            // Does not occur in these messages.
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

pub(crate) fn snapshot(snapshot: Snapshot) -> wire::Snapshot {
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

/// A confirmation repeats the request (CSI specification, `ValidateVolumeCapabilitiesResponse.Confirmed`).
pub(crate) fn validation(
    request: ValidateVolume,
    validation: Validation,
) -> wire::ValidateVolumeCapabilitiesResponse {
    let ValidateVolume {
        id: _,
        context,
        capabilities,
        parameters,
        mutable_parameters,
    } = request;
    match validation {
        Validation::Unsupported(message) => wire::ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message,
        },
        Validation::Confirmed => wire::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(wire::validate_volume_capabilities_response::Confirmed {
                volume_context: context.into_map(),
                volume_capabilities: capabilities.into_iter().map(capability).collect(),
                parameters: parameters.into_map(),
                mutable_parameters: mutable_parameters.into_map(),
            }),
            message: String::new(),
        },
    }
}

pub(crate) fn volumes(page: Page<VolumeEntry>, tokens: &PageTokens) -> wire::ListVolumesResponse {
    use wire::list_volumes_response::{Entry, VolumeStatus as WireStatus};
    let Page {
        entries,
        next_token,
    } = page;
    let entry = |VolumeEntry { volume, status }| {
        let (published_node_ids, volume_condition) = self::status(status);
        Entry {
            volume: Some(self::volume(volume)),
            status: Some(WireStatus {
                published_node_ids,
                volume_condition,
            }),
        }
    };
    wire::ListVolumesResponse {
        entries: entries.into_iter().map(entry).collect(),
        next_token: sealed(next_token, tokens),
    }
}

/// Empty: the list is complete.
fn sealed(token: Option<String>, tokens: &PageTokens) -> String {
    token.map(|token| tokens.seal(&token)).unwrap_or_default()
}

pub(crate) fn found_volume(entry: VolumeEntry) -> wire::ControllerGetVolumeResponse {
    use wire::controller_get_volume_response::VolumeStatus as WireStatus;
    let VolumeEntry { volume, status } = entry;
    let (published_node_ids, volume_condition) = self::status(status);
    wire::ControllerGetVolumeResponse {
        volume: Some(self::volume(volume)),
        status: Some(WireStatus {
            published_node_ids,
            volume_condition,
        }),
    }
}

pub(crate) fn available(available: Available) -> wire::GetCapacityResponse {
    let Available {
        available_bytes,
        maximum_volume_bytes,
        minimum_volume_bytes,
    } = available;
    wire::GetCapacityResponse {
        available_capacity: signed(available_bytes),
        maximum_volume_size: maximum_volume_bytes.map(signed),
        minimum_volume_size: minimum_volume_bytes.map(signed),
    }
}

pub(crate) fn expanded(expanded: Expanded) -> wire::ControllerExpandVolumeResponse {
    let Expanded {
        capacity_bytes,
        node_expansion_required,
    } = expanded;
    wire::ControllerExpandVolumeResponse {
        capacity_bytes: signed(capacity_bytes),
        node_expansion_required,
    }
}

pub(crate) fn snapshots(page: Page<Snapshot>, tokens: &PageTokens) -> wire::ListSnapshotsResponse {
    let Page {
        entries,
        next_token,
    } = page;
    let entry = |listed| wire::list_snapshots_response::Entry {
        snapshot: Some(snapshot(listed)),
    };
    wire::ListSnapshotsResponse {
        entries: entries.into_iter().map(entry).collect(),
        next_token: sealed(next_token, tokens),
    }
}

pub(crate) fn group_snapshot(group: GroupSnapshot) -> wire::VolumeGroupSnapshot {
    let GroupSnapshot {
        id,
        snapshots,
        created_at,
        ready_to_use,
    } = group;
    wire::VolumeGroupSnapshot {
        group_snapshot_id: id.into_string(),
        snapshots: snapshots.into_iter().map(snapshot).collect(),
        creation_time: Some(timestamp(created_at)),
        ready_to_use,
    }
}

pub(crate) fn allocated(page: MetadataPage) -> wire::GetMetadataAllocatedResponse {
    let (block_type, volume_capacity_bytes, block_metadata) = portion(page);
    wire::GetMetadataAllocatedResponse {
        block_metadata_type: block_type,
        volume_capacity_bytes,
        block_metadata,
    }
}

pub(crate) fn delta(page: MetadataPage) -> wire::GetMetadataDeltaResponse {
    let (block_type, volume_capacity_bytes, block_metadata) = portion(page);
    wire::GetMetadataDeltaResponse {
        block_metadata_type: block_type,
        volume_capacity_bytes,
        block_metadata,
    }
}

/// The fields that both streams share.
fn portion(page: MetadataPage) -> (i32, i64, Vec<wire::BlockMetadata>) {
    let MetadataPage {
        block_type,
        volume_capacity_bytes,
        extents,
        // Only the stream itself uses it.
        next_offset: _,
    } = page;
    let block_type = match block_type {
        BlockType::FixedLength => wire::BlockMetadataType::FixedLength.into(),
        BlockType::VariableLength => wire::BlockMetadataType::VariableLength.into(),
        BlockType::Other(number) => number.cast_signed(),
    };
    let extent = |Extent {
                      offset_bytes,
                      size_bytes,
                  }| wire::BlockMetadata {
        byte_offset: signed(offset_bytes),
        size_bytes: signed(size_bytes),
    };
    let extents = extents.into_iter().map(extent).collect();
    (block_type, signed(volume_capacity_bytes), extents)
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

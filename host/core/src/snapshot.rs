//! Snapshots, groups of them, and their metadata.

use crate::names::{GroupSnapshotId, SnapshotId, VolumeId};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};

/// CSI `Snapshot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// Its source volume.
    pub source_volume: VolumeId,
    /// In bytes; 0: unknown.
    pub size_bytes: u64,
    /// Nanoseconds since 1970-01-01 UTC.
    pub created_at: u64,
    /// False while an upload is still running.
    pub ready_to_use: bool,
    /// Its group.
    pub group: Option<GroupSnapshotId>,
    /// CSI 1.13; empty otherwise.
    pub accessible_topology: Vec<Topology>,
}

/// CSI `VolumeGroupSnapshot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// Its id.
    pub id: GroupSnapshotId,
    /// Its members.
    pub snapshots: Vec<Snapshot>,
    /// Nanoseconds since 1970-01-01 UTC.
    pub created_at: u64,
    /// True when all members are.
    pub ready_to_use: bool,
}

/// CSI `BlockMetadataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockType {
    /// All extents have one size.
    FixedLength,
    /// Extents have individual sizes.
    VariableLength,
    /// A type of a later CSI: its number.
    Other(u32),
}

/// A range of a volume or an image, in bytes; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Its start.
    pub offset_bytes: u64,
    /// Its length.
    pub size_bytes: u64,
}

/// Part of the answer to GetMetadataAllocated and GetMetadataDelta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPage {
    /// How the volume is divided into extents.
    pub block_type: BlockType,
    /// Size of the volume.
    pub volume_capacity_bytes: u64,
    /// In ascending order.
    pub extents: Vec<Extent>,
    /// The position to continue from; absent: the end.
    pub next_offset: Option<u64>,
}

//! Requests and answers of the driver that are not the backend's own: node calls carry paths, which no backend sees, and some answers join what
//! several rooms say.

#![allow(
    missing_docs,
    reason = "what has no other word is CSI's and described there"
)]

use crate::attributes::Attributes;
use crate::health::Health;
use crate::mounter::VolumeStats;
use crate::names::{DriverName, NodeId, NodePath, SnapshotId, VolumeId};
use crate::topology::Topology;
use crate::volume::{CapacityRange, PageRequest, VolumeCapability, VolumeCondition};

/// CSI GetPluginInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    pub name: DriverName,
    pub vendor_version: String,
    pub manifest: Attributes,
}

/// CSI ListSnapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListSnapshotsRequest {
    pub snapshot: Option<SnapshotId>,
    pub source_volume: Option<VolumeId>,
    pub page: PageRequest,
}

/// CSI ControllerListVolumeHealth.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListVolumeHealthRequest {
    /// Absent: as many as the host likes.
    pub max_entries: Option<u32>,
    /// Where to go on.
    pub from: HealthPosition,
}

/// How far a walk through the volumes has come. The backend's pages are no measure: time can be up in the middle of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthPosition {
    /// The backend's token of the page; absent: the first.
    pub page: Option<String>,
    /// The last volume of that page that was looked at; absent: none.
    pub after: Option<VolumeId>,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeHealthPage {
    /// Volumes with which something is wrong.
    pub entries: Vec<VolumeHealth>,
    /// Absent: the end.
    pub next: Option<HealthPosition>,
}

/// What is wrong with one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeHealth {
    /// Which.
    pub id: VolumeId,
    /// Empty: nothing.
    pub findings: Vec<Health>,
}

/// CSI NodeGetVolumeHealth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHealthRequest {
    pub id: VolumeId,
    pub publish_path: Option<NodePath>,
    pub staging_path: Option<NodePath>,
}

/// Storage that this node does not reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageHealth {
    /// In CamelCase, for machines; each once.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// CSI NodeStageVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStageRequest {
    pub id: VolumeId,
    pub staging_path: NodePath,
    pub capability: VolumeCapability,
    pub publish_context: Attributes,
    pub volume_context: Attributes,
}

/// CSI NodePublishVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePublishRequest {
    pub id: VolumeId,
    pub staging_path: Option<NodePath>,
    pub target_path: NodePath,
    pub capability: VolumeCapability,
    pub readonly: bool,
    /// An inline volume of a pod: never staged.
    pub ephemeral: bool,
    pub publish_context: Attributes,
    pub volume_context: Attributes,
}

/// CSI NodeGetVolumeStats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatsRequest {
    pub id: VolumeId,
    pub volume_path: NodePath,
    pub staging_path: Option<NodePath>,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStats {
    /// What the kernel says; absent for a mount that is gone, of which the condition tells.
    pub usage: Option<VolumeStats>,
    /// What host and backend find; absent where no condition is told.
    pub condition: Option<VolumeCondition>,
}

/// CSI NodeExpandVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeExpandRequest {
    pub id: VolumeId,
    pub volume_path: NodePath,
    pub capacity: CapacityRange,
}

/// CSI NodeGetInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    pub id: NodeId,
    pub max_volumes: Option<u64>,
    pub topology: Option<Topology>,
}

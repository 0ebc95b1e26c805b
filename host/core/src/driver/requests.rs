//! Requests and answers of the driver that differ from the backend's: node calls contain paths, which no backend sees, and some answers combine the
//! results of several components of the host.

#![allow(missing_docs, reason = "undescribed names are those of CSI")]

use crate::attributes::Attributes;
use crate::backend::{NodePublish, NodeStage};
use crate::health::Health;
use crate::mounter::VolumeStats;
use crate::names::{DriverName, NodeId, NodePath, SnapshotId, VolumeId};
use crate::topology::Topology;
use crate::volume::{CapacityRange, PageRequest, VolumeCondition};

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
    /// Absent: the host chooses.
    pub max_entries: Option<u32>,
    /// The position to continue from.
    pub from: HealthPosition,
}

/// The progress of a walk through the volumes. The backend's pages are too coarse: the time can run out within one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthPosition {
    /// The backend's token of the page; absent: the first.
    pub page: Option<String>,
    /// The last volume of that page that was checked; absent: none.
    pub after: Option<VolumeId>,
}

/// The answer to ControllerListVolumeHealth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeHealthPage {
    /// Volumes with a health condition.
    pub entries: Vec<VolumeHealth>,
    /// Absent: the list is complete.
    pub next: Option<HealthPosition>,
}

/// The health conditions of one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeHealth {
    /// The volume.
    pub id: VolumeId,
    /// Empty: the volume is healthy.
    pub findings: Vec<Health>,
}

/// CSI NodeGetVolumeHealth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHealthRequest {
    pub id: VolumeId,
    pub publish_path: Option<NodePath>,
    pub staging_path: Option<NodePath>,
}

/// Storage that is not usable on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageHealth {
    /// In CamelCase, for programs; each reason once.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// CSI NodeStageVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStageRequest {
    /// What the backend sees.
    pub volume: NodeStage,
    pub staging_path: NodePath,
}

/// CSI NodePublishVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePublishRequest {
    /// What the backend sees. An inline volume is never staged.
    pub volume: NodePublish,
    pub staging_path: Option<NodePath>,
    pub target_path: NodePath,
}

/// CSI NodeGetVolumeStats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatsRequest {
    pub id: VolumeId,
    pub volume_path: NodePath,
    pub staging_path: Option<NodePath>,
}

/// The answer to NodeGetVolumeStats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStats {
    /// The kernel's figures; absent for a missing mount, which the condition reports.
    pub usage: Option<VolumeStats>,
    /// The findings of host and backend; absent if no condition is reported.
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

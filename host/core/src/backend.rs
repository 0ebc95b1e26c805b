//! The trait of a storage backend: CSI's calls without the wire.
//!
//! Arguments are as CSI's, less what the host does itself. Answers were checked by the implementation: ids, maps and capacities are within their
//! limits, a capacity is inside the range that was asked. When a call returns, what it wrote is durable.

#![allow(
    missing_docs,
    reason = "what has no other word is CSI's and described there"
)]

use crate::attributes::Attributes;
use crate::blame::Blame;
use crate::call::Call;
use crate::code::Code;
use crate::health::Health;
use crate::names::{GroupSnapshotId, NodeId, RequestedName, SnapshotId, VolumeId};
use crate::plan::Plan;
use crate::services::ServiceSet;
use crate::snapshot::{GroupSnapshot, MetadataPage, Snapshot};
use crate::topology::{Topology, TopologyRequirement};
use crate::volume::{
    CapacityRange, ContentSource, Page, PageRequest, Volume, VolumeCapability, VolumeEntry,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which code runs: stands in every error that is the plugin's fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginLabel {
    /// `plugin-info.name`.
    pub name: String,
    /// `plugin-info.version`.
    pub version: String,
    /// `sha256:..` of the component.
    pub digest: String,
}

impl fmt::Display for PluginLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin {} {} ({})", self.name, self.version, self.digest)
    }
}

/// CSI CreateVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateVolume {
    pub name: RequestedName,
    pub capacity: CapacityRange,
    pub capabilities: Vec<VolumeCapability>,
    pub parameters: Attributes,
    pub mutable_parameters: Attributes,
    pub content_source: Option<ContentSource>,
    pub accessibility: Option<TopologyRequirement>,
}

/// CSI ValidateVolumeCapabilities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidateVolume {
    pub id: VolumeId,
    pub context: Attributes,
    pub capabilities: Vec<VolumeCapability>,
    pub parameters: Attributes,
    pub mutable_parameters: Attributes,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validation {
    /// All of it holds.
    Confirmed,
    /// Why not.
    Unsupported(String),
}

/// CSI ControllerPublishVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerPublish {
    pub id: VolumeId,
    pub node: NodeId,
    pub capability: VolumeCapability,
    pub readonly: bool,
    pub context: Attributes,
}

/// CSI ControllerExpandVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerExpand {
    pub id: VolumeId,
    pub capacity: CapacityRange,
    pub capability: Option<VolumeCapability>,
}

/// The answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expanded {
    pub capacity_bytes: u64,
    pub node_expansion_required: bool,
}

/// CSI GetCapacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetCapacity {
    pub capabilities: Vec<VolumeCapability>,
    pub parameters: Attributes,
    pub accessible_topology: Option<Topology>,
}

/// The answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Available {
    pub available_bytes: u64,
    pub maximum_volume_bytes: Option<u64>,
    pub minimum_volume_bytes: Option<u64>,
}

/// CSI CreateSnapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSnapshot {
    pub source_volume: VolumeId,
    pub name: RequestedName,
    pub parameters: Attributes,
    /// CSI 1.13, and only with the feature `snapshot-topology`.
    pub accessibility: Option<TopologyRequirement>,
}

/// CSI ListSnapshots, but for the lookup of one by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListSnapshots {
    pub source_volume: Option<VolumeId>,
    pub page: PageRequest,
}

/// CSI CreateVolumeGroupSnapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateGroup {
    pub name: RequestedName,
    pub source_volumes: Vec<VolumeId>,
    pub parameters: Attributes,
}

/// CSI NodeStageVolume, as a backend sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStage {
    pub id: VolumeId,
    pub capability: VolumeCapability,
    pub publish_context: Attributes,
    pub volume_context: Attributes,
}

/// CSI NodePublishVolume, as a backend sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePublish {
    pub id: VolumeId,
    pub capability: VolumeCapability,
    pub readonly: bool,
    /// An inline volume of a pod.
    pub ephemeral: bool,
    pub publish_context: Attributes,
    pub volume_context: Attributes,
}

/// What a backend says of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDescription {
    /// Absent: the host's node name, which the administrator may change.
    pub id: Option<NodeId>,
    /// Absent: no limit.
    pub max_volumes: Option<u64>,
    /// Absent: reachable from everywhere.
    pub topology: Option<Topology>,
}

/// Why a backend's call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// The backend says so itself. Values of the call's secrets were replaced.
    #[error("{message}")]
    Answered {
        /// Its code.
        code: Code,
        /// Its words.
        message: String,
    },
    /// The guest trapped: a fault of the plugin; nothing of the call's instance is left.
    #[error("{plugin} trapped in {function}: {reason}")]
    Trapped {
        /// Which code.
        plugin: PluginLabel,
        /// Which export.
        function: &'static str,
        /// What wasm says.
        reason: String,
    },
    /// Over its memory, table, handle or host-call limit.
    #[error("{plugin} went over {limit} in {function}; the limit stands in the backend document")]
    OverLimit {
        /// Which code.
        plugin: PluginLabel,
        /// Which export.
        function: &'static str,
        /// Which limit, by its key in the document, with its value.
        limit: String,
    },
    /// Used up its time (`limits.time`), computing or waiting. Work may be under way.
    #[error("{plugin} did not answer {function} within {seconds} s")]
    OutOfTime {
        /// Which code.
        plugin: PluginLabel,
        /// Which export.
        function: &'static str,
        /// The budget in seconds.
        seconds: u64,
    },
    /// It answered, and the answer breaks a rule of CSI or of the contract.
    #[error("{plugin} gave an answer to {function} that is not valid: {reason}")]
    BadAnswer {
        /// Which code. Boxed, since every result is as large as the largest error.
        plugin: Box<PluginLabel>,
        /// Which export.
        function: &'static str,
        /// Which rule.
        reason: String,
        /// Whose fault that is.
        blame: Blame,
    },
    /// The host refused something that it asked for, and it ended the call with that.
    #[error("{plugin} asked the host in {function} for what is refused: {reason}")]
    Refused {
        /// Which code. Boxed, since every result is as large as the largest error.
        plugin: Box<PluginLabel>,
        /// Which export.
        function: &'static str,
        /// What the client is told, who did not ask for it.
        code: Code,
        /// Why.
        reason: String,
        /// Whose fault that is.
        blame: Blame,
    },
    /// The host, or the storage that it reaches for the plugin, failed the call.
    #[error("{plugin} could not go on in {function}: {reason}")]
    HostFailed {
        /// Which code.
        plugin: PluginLabel,
        /// Which export.
        function: &'static str,
        /// What the client is told.
        code: Code,
        /// What failed, what to do.
        reason: String,
    },
    /// As many of its calls run as `limits.concurrency` allows.
    #[error("the backend is busy: {limit} calls are running (limits.concurrency)")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// Its running calls have all the memory that they may have together.
    #[error(
        "the backend is busy: its calls take the {bytes} bytes that they may have together (limits.memory)"
    )]
    MemoryBusy {
        /// That sum.
        bytes: usize,
    },
    /// It does not export the interface.
    #[error("the backend does not offer `{interface}`")]
    NotOffered {
        /// The interface of the contract.
        interface: &'static str,
    },
    /// The host stopped the call: it is going down.
    #[error("the call was stopped: the host is going down")]
    Cancelled,
}

/// How a call of a backend ends.
pub type Answer<T> = Result<T, BackendError>;

/// A storage backend. A method whose interface is not in [`Backend::offer`] answers [`BackendError::NotOffered`].
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Which code runs.
    fn label(&self) -> &PluginLabel;
    /// What it offers.
    fn offer(&self) -> &ServiceSet;
    /// `plugin-info.manifest`.
    fn manifest(&self) -> &Attributes;

    /// False: still starting.
    async fn probe(&self, call: &Call) -> Answer<bool>;

    async fn create_volume(&self, call: &Call, args: CreateVolume) -> Answer<Volume>;
    async fn delete_volume(&self, call: &Call, id: VolumeId) -> Answer<()>;
    async fn validate_volume(&self, call: &Call, args: ValidateVolume) -> Answer<Validation>;
    async fn controller_publish(&self, call: &Call, args: ControllerPublish) -> Answer<Attributes>;
    async fn controller_unpublish(
        &self,
        call: &Call,
        id: VolumeId,
        node: Option<NodeId>,
    ) -> Answer<()>;
    async fn controller_expand(&self, call: &Call, args: ControllerExpand) -> Answer<Expanded>;
    async fn modify_volume(&self, call: &Call, id: VolumeId, mutable: Attributes) -> Answer<()>;
    async fn list_volumes(&self, call: &Call, page: PageRequest) -> Answer<Page<VolumeEntry>>;
    async fn get_volume(&self, call: &Call, id: VolumeId) -> Answer<VolumeEntry>;
    async fn get_capacity(&self, call: &Call, args: GetCapacity) -> Answer<Available>;

    async fn create_snapshot(&self, call: &Call, args: CreateSnapshot) -> Answer<Snapshot>;
    async fn delete_snapshot(&self, call: &Call, id: SnapshotId) -> Answer<()>;
    async fn get_snapshot(&self, call: &Call, id: SnapshotId) -> Answer<Snapshot>;
    async fn list_snapshots(&self, call: &Call, args: ListSnapshots) -> Answer<Page<Snapshot>>;

    async fn create_group(&self, call: &Call, args: CreateGroup) -> Answer<GroupSnapshot>;
    async fn delete_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Answer<()>;
    async fn get_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Answer<GroupSnapshot>;

    async fn get_allocated(
        &self,
        call: &Call,
        id: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Answer<MetadataPage>;
    async fn get_delta(
        &self,
        call: &Call,
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Answer<MetadataPage>;

    async fn volume_health(&self, call: &Call, id: VolumeId) -> Answer<Vec<Health>>;

    async fn node_info(&self, call: &Call) -> Answer<NodeDescription>;
    async fn node_stage(&self, call: &Call, args: NodeStage) -> Answer<Plan>;
    async fn node_publish(&self, call: &Call, args: NodePublish) -> Answer<Plan>;
    async fn before_unstage(&self, call: &Call, id: VolumeId, notes: Attributes) -> Answer<()>;
}

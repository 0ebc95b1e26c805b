//! The trait of a storage backend: CSI's calls without the wire.
//!
//! Arguments are those of CSI without the parts that the host handles itself. The implementation has checked each answer: ids, maps and capacities
//! are within their limits, and a capacity is inside the requested range. When a call returns, its writes are durable.

#![allow(missing_docs, reason = "undescribed names are those of CSI")]

use crate::attributes::Attributes;
use crate::blame::Blame;
use crate::call::Call;
use crate::code::Code;
use crate::health::Health;
use crate::names::{GroupSnapshotId, NodeId, RequestedName, SnapshotId, VolumeId};
use crate::plan::Plan;
use crate::secrets::SecretOptions;
use crate::services::ServiceSet;
use crate::snapshot::{GroupSnapshot, MetadataPage, Snapshot};
use crate::topology::{Topology, TopologyRequirement};
use crate::volume::{
    CapacityRange, ContentSource, Page, PageRequest, Volume, VolumeCapability, VolumeEntry,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Name, version and digest of a plugin; part of every error that is the plugin's fault.
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

/// The answer to ValidateVolumeCapabilities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validation {
    /// All requested capabilities are supported.
    Confirmed,
    /// The reason.
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

/// The answer to ControllerExpandVolume.
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

/// The answer to GetCapacity.
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
    /// Field of CSI 1.13, passed only with the feature `snapshot-topology`.
    pub accessibility: Option<TopologyRequirement>,
}

/// CSI ListSnapshots, without the lookup of one snapshot by id.
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

/// What a backend returns about its node.
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
    /// The plugin returned an error. Values of the call's secrets were replaced.
    #[error("{message}")]
    Answered {
        /// The error's code.
        code: Code,
        /// The error's message.
        message: String,
    },
    /// The guest trapped: a fault of the plugin. The call's instance is discarded.
    #[error("{plugin} trapped in {function}: {reason}")]
    Trapped {
        /// The plugin.
        plugin: PluginLabel,
        /// The export that was called.
        function: &'static str,
        /// The trap's message.
        reason: String,
    },
    /// The call exceeded its memory, table, handle or host-call limit.
    #[error("{plugin} exceeded {limit} in {function}; the limit is set in the backend document")]
    OverLimit {
        /// The plugin.
        plugin: PluginLabel,
        /// The export that was called.
        function: &'static str,
        /// The limit, by its key in the document, with its value.
        limit: String,
    },
    /// The call exceeded its time (`limits.time`), computing or waiting. Its work may be under way.
    #[error("{plugin} did not answer {function} within {seconds} s")]
    OutOfTime {
        /// The plugin.
        plugin: PluginLabel,
        /// The export that was called.
        function: &'static str,
        /// The budget in seconds.
        seconds: u64,
    },
    /// The plugin answered, and the answer breaks a rule of CSI or of the contract.
    #[error("{plugin} gave an answer to {function} that is not valid: {reason}")]
    BadAnswer {
        /// The plugin. Boxed, since every result is as large as the largest error.
        plugin: Box<PluginLabel>,
        /// The export that was called.
        function: &'static str,
        /// The rule.
        reason: String,
        /// Who is responsible.
        blame: Blame,
    },
    /// The host rejected a request of the plugin, and the plugin ended the call with that error.
    #[error("{plugin} made a rejected host call in {function}: {reason}")]
    Refused {
        /// The plugin. Boxed, since every result is as large as the largest error.
        plugin: Box<PluginLabel>,
        /// The export that was called.
        function: &'static str,
        /// The code that the client receives, which did not make the rejected request.
        code: Code,
        /// The reason.
        reason: String,
        /// Who is responsible.
        blame: Blame,
    },
    /// The host, or the storage that it accesses for the plugin, failed the call.
    #[error("{plugin} could not continue in {function}: {reason}")]
    HostFailed {
        /// The plugin.
        plugin: PluginLabel,
        /// The export that was called.
        function: &'static str,
        /// The code that the client receives.
        code: Code,
        /// What failed and what to do.
        reason: String,
    },
    /// The plugin sent a request before its version serves, which the host withheld, and the plugin ended the call with an error.
    #[error(
        "{plugin} sent a request to its storage system in {function}, which is not allowed before its version serves: {message}"
    )]
    Withheld {
        /// The plugin.
        plugin: PluginLabel,
        /// The export that was called.
        function: &'static str,
        /// The message of its error. Values of the call's secrets were replaced.
        message: String,
    },
    /// The backend already runs as many calls as `limits.concurrency` allows.
    #[error("the backend is busy: {limit} calls are running (limits.concurrency)")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// The backend's running calls use all the memory that they may have together.
    #[error(
        "the backend is busy: its calls use the {bytes} bytes that they may have together (limits.memory)"
    )]
    MemoryBusy {
        /// The limit of that sum.
        bytes: usize,
    },
    /// The component does not export the interface.
    #[error("the backend does not offer `{interface}`")]
    NotOffered {
        /// The interface of the contract.
        interface: &'static str,
    },
    /// The host stopped the call because it is shutting down.
    #[error("the call was stopped: the host is shutting down")]
    Cancelled,
}

/// The places of a backend for concurrent calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// How many places there are (`limits.concurrency`).
    pub limit: usize,
    /// How many are taken.
    pub running: usize,
    /// How many calls wait for one.
    pub waiting: usize,
}

/// The result of a call of a backend.
pub type Answer<T> = Result<T, BackendError>;

/// A storage backend. A method whose interface is not in [`Backend::offer`] returns [`BackendError::NotOffered`].
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The plugin's name, version and digest.
    fn label(&self) -> &PluginLabel;
    /// The services and features that it offers.
    fn offer(&self) -> &ServiceSet;
    /// The values of the secret options of a plan that it recorded for a volume: of the call's secrets, of those of its document, and of sealed texts.
    fn secret_options(&self, call: &Call, id: &VolumeId, plan: &Plan) -> Answer<SecretOptions>;
    /// `plugin-info.manifest`.
    fn manifest(&self) -> &Attributes;
    /// The use of its places for concurrent calls.
    fn load(&self) -> Load;

    /// False: the backend is still starting.
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

    async fn register_node(&self, call: &Call, node: NodeId) -> Answer<()>;
    async fn unregister_node(&self, call: &Call, node: NodeId) -> Answer<()>;
}

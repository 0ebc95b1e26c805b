//! The requests to a mounter, and its responses.

use crate::health::Health;
use crate::names::{DriverName, NodePath, VolumeId};
use crate::node_fact::{FactValues, Instance, NodeFact};
use crate::plan::Plan;
use crate::pool::{PoolCall, PoolReply};
use crate::secrets::SecretOptions;
use crate::volume::VolumeCapability;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A volume of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VolumeKey {
    /// The driver.
    pub driver: DriverName,
    /// The volume.
    pub volume: VolumeId,
}

/// Queries whether a volume is staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedQuery {
    /// The volume.
    pub key: VolumeKey,
    /// The staging path.
    pub staging_path: NodePath,
    /// The requested capability.
    pub capability: VolumeCapability,
}

/// The state according to journal and kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Staged {
    /// Not staged, or only in part: a stage may proceed.
    No,
    /// Staged as requested: the answer is OK without a call of the backend.
    AsWanted,
}

/// Makes a volume usable at its staging path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageVolume {
    /// The volume.
    pub key: VolumeKey,
    /// A directory that the client created.
    pub staging_path: NodePath,
    /// The requested capability.
    pub capability: VolumeCapability,
    /// The plan of the volume.
    pub plan: Plan,
    /// Values of the plan's secret options; neither journaled nor compared.
    pub secret_options: SecretOptions,
}

/// Undoes a stage. Needs neither plan nor plugin nor journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnstageVolume {
    /// The volume.
    pub key: VolumeKey,
    /// The staging path.
    pub staging_path: NodePath,
}

/// Makes a volume visible at a target path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishVolume {
    /// The volume.
    pub key: VolumeKey,
    /// The staging path; absent for volumes without a stage step.
    pub staging_path: Option<NodePath>,
    /// Created by the mounter: a directory, or a file for a raw block volume. Its parent exists.
    pub target_path: NodePath,
    /// The requested capability.
    pub capability: VolumeCapability,
    /// Read-only, whatever the stage was.
    pub readonly: bool,
    /// The plan, for volumes without a stage step.
    pub plan: Option<Plan>,
    /// Values of the plan's secret options; neither journaled nor compared.
    pub secret_options: SecretOptions,
}

/// Undoes a publish, and removes the target. Needs neither plugin nor journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpublishVolume {
    /// The volume.
    pub key: VolumeKey,
    /// The target path.
    pub target_path: NodePath,
}

/// Requests the statistics of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatVolume {
    /// The volume.
    pub key: VolumeKey,
    /// The path where it is staged or published.
    pub volume_path: NodePath,
    /// The staging path, if the client sent it.
    pub staging_path: Option<NodePath>,
}

/// Statistics of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStats {
    /// In bytes.
    pub bytes: Usage,
    /// In inodes; absent for block volumes and for file systems without a count.
    pub inodes: Option<Usage>,
}

/// The use of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The total.
    pub total: u64,
    /// In use; absent for block volumes.
    pub used: Option<u64>,
    /// Free for an unprivileged user; absent for block volumes.
    pub available: Option<u64>,
}

/// Requests the health conditions of a volume on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthQuery {
    /// The volume.
    pub key: VolumeKey,
    /// The target path, if the client sent it.
    pub publish_path: Option<NodePath>,
    /// The staging path, if the client sent it.
    pub staging_path: Option<NodePath>,
}

/// A volume that is in use on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeInUse {
    /// The volume.
    pub volume: VolumeId,
    /// The staging path, if the volume has a stage step.
    pub staging_path: Option<String>,
    /// The target paths.
    pub target_paths: Vec<String>,
}

/// Expands the volume on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpandVolume {
    /// The volume.
    pub key: VolumeKey,
    /// The path where it is staged or published.
    pub volume_path: NodePath,
    /// At least this many bytes, if given.
    pub required_bytes: Option<u64>,
    /// At most this many bytes, if given.
    pub limit_bytes: Option<u64>,
    /// Expands the pool's object too: the driver has no controller expansion (`node-only-expansion`).
    pub grows_object: bool,
}

/// The state of a mounter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MounterStatus {
    /// One sentence for each path root that is not on a shared mount. Beside a kubelet there must be none: it would not see the volumes.
    pub unshared_roots: Vec<String>,
    /// What its process uses; absent where /proc cannot be read.
    pub process: Option<ProcessUsage>,
}

/// What the kernel knows of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// CPU time in user and kernel mode.
    pub cpu: Duration,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Virtual memory, most of which may only be reserved.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// How many it may have open; absent: any number.
    pub max_fds: Option<u64>,
    /// Its start, as Unix time.
    pub started: Duration,
}

/// One request to the mounter. It may hold secrets, so it has no `Debug`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum MounterRequest {
    /// Whether a volume is staged. Staged with another capability: [`MountError::AlreadyExists`](super::MountError::AlreadyExists).
    Staged(StagedQuery),
    /// Checks the whole plan, writes the journal, executes, verifies; rolls back on failure.
    Stage(StageVolume),
    /// The notes of the volume's plan, for `before-unstage`. Empty if nothing is recorded.
    Notes(VolumeKey),
    /// Unmounts everything that is stacked at the path. Not staged: success.
    Unstage(UnstageVolume),
    /// Binds a staged volume, or executes the plan of one without a stage step. Already published with the same arguments: success.
    Publish(PublishVolume),
    /// Unmounts everything that is stacked at the path and removes it. Path missing: success.
    Unpublish(UnpublishVolume),
    /// Statistics of the volume. Not mounted at the path: [`MountError::NotFound`](super::MountError::NotFound).
    Stats(StatVolume),
    /// The volume's health conditions on this node, from kernel and journal; empty if it is healthy. Storage that does not answer in time is a
    /// finding, not an error. Without a path: all paths of the volume. Not mounted at the path, or at no path: [`MountError::NotFound`](super::MountError::NotFound).
    Health(HealthQuery),
    /// Expands the volume on the node; the size in bytes afterwards (0: unknown). Smaller than requested: [`MountError::Unusable`](super::MountError::Unusable).
    Expand(ExpandVolume),
    /// Volumes of a driver whose journal contains the unfinished work of a killed host, or missing mounts.
    Unsettled(DriverName),
    /// The state of the mounter itself. It waits for no storage.
    Status,
    /// Finishes or undoes the work that an earlier process left for one unsettled volume.
    Recover(VolumeKey),
    /// One call of a backend to its pools. When it returns, the change and its parent directory are on stable storage.
    Pool(DriverName, PoolCall),
    /// Volumes of a driver that are staged or published on this node, or are being staged, published or torn down. It waits for no storage.
    VolumesInUse(DriverName),
    /// What the node's config drive of OpenStack says of it, for a driver that is granted a fact of that. No such drive:
    /// [`MountError::NotFound`](super::MountError::NotFound).
    ConfigDrive(DriverName),
    /// A fact that the node's files, kernel and network tell, for a driver that is granted it. One that OpenStack tells:
    /// [`MountError::Unsupported`](super::MountError::Unsupported).
    NodeFact(DriverName, NodeFact),
}

/// The response to a [`MounterRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum MounterResponse {
    /// To `Stage`, `Unstage`, `Publish`, `Unpublish` and `Recover`.
    Done,
    /// To `Staged`.
    Staged(Staged),
    /// To `Notes`.
    Notes(BTreeMap<String, String>),
    /// To `Stats`.
    Stats(VolumeStats),
    /// To `Health`.
    Health(Vec<Health>),
    /// To `Expand`: bytes.
    Expanded(u64),
    /// To `Unsettled`.
    Unsettled(Vec<VolumeId>),
    /// To `Status`.
    Status(MounterStatus),
    /// To `Pool`.
    Pool(PoolReply),
    /// To `VolumesInUse`.
    VolumesInUse(Vec<VolumeInUse>),
    /// To `ConfigDrive`.
    Instance(Instance),
    /// To `NodeFact`.
    FactValues(FactValues),
}

impl MounterRequest {
    /// A word for the kind of request, for metrics and tests.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Staged(_) => "staged",
            Self::Stage(_) => "stage",
            Self::Notes(_) => "notes",
            Self::Unstage(_) => "unstage",
            Self::Publish(_) => "publish",
            Self::Unpublish(_) => "unpublish",
            Self::Stats(_) => "stats",
            Self::Health(_) => "health",
            Self::Expand(_) => "expand",
            Self::Unsettled(_) => "unsettled",
            Self::Status => "status",
            Self::Recover(_) => "recover",
            Self::Pool(..) => "pool",
            Self::VolumesInUse(_) => "volumes_in_use",
            Self::ConfigDrive(_) => "config_drive",
            Self::NodeFact(..) => "node_fact",
        }
    }
}

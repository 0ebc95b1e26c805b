//! The trait of the mounter: everything that touches the node's mounts, devices and pools, as one request and one response.
//!
//! Every request names the driver: grants, path roots and journal belong to a driver and are stored on the mounter's side.

mod error;

use crate::health::Health;
use crate::names::{DriverName, NodePath, VolumeId};
use crate::node_fact::{FactValues, Instance, NodeFact};
use crate::plan::Plan;
use crate::pool::{PoolCall, PoolReply};
use crate::secrets::SecretOptions;
use crate::volume::VolumeCapability;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use error::MountError;

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

/// One request to the mounter. It may hold secrets, so it has no `Debug`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum MounterRequest {
    /// Whether a volume is staged. Staged with another capability: [`MountError::AlreadyExists`].
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
    /// Statistics of the volume. Not mounted at the path: [`MountError::NotFound`].
    Stats(StatVolume),
    /// The volume's health conditions on this node, from kernel and journal; empty if it is healthy. Storage that does not answer in time is a
    /// finding, not an error. Without a path: all paths of the volume. Not mounted at the path, or at no path: [`MountError::NotFound`].
    Health(HealthQuery),
    /// Expands the volume on the node; the size in bytes afterwards (0: unknown). Smaller than requested: [`MountError::Unusable`].
    Expand(ExpandVolume),
    /// Volumes of a driver whose journal contains the unfinished work of a killed host, or missing mounts.
    Unsettled(DriverName),
    /// One sentence for each path root that is not on a shared mount. Beside a kubelet there must be none: it would not see the volumes.
    UnsharedRoots,
    /// Finishes or undoes the work that an earlier process left for one unsettled volume.
    Recover(VolumeKey),
    /// One call of a backend to its pools. When it returns, the change and its parent directory are on stable storage.
    Pool(DriverName, PoolCall),
    /// Volumes of a driver that are staged or published on this node, or are being staged, published or torn down. It waits for no storage.
    VolumesInUse(DriverName),
    /// What the node's config drive of OpenStack says of it, for a driver that is granted a fact of that. No such drive:
    /// [`MountError::NotFound`].
    ConfigDrive(DriverName),
    /// A fact that the node's files, kernel and network tell, for a driver that is granted it. One that OpenStack tells:
    /// [`MountError::Unsupported`].
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
    /// To `UnsharedRoots`.
    UnsharedRoots(Vec<String>),
    /// To `Pool`.
    Pool(PoolReply),
    /// To `VolumesInUse`.
    VolumesInUse(Vec<VolumeInUse>),
    /// To `ConfigDrive`.
    Instance(Instance),
    /// To `NodeFact`.
    FactValues(FactValues),
}

/// Node work of the host. Implementations: `mount` in this process; a client of `wasmount mounter`.
///
/// Callers hold the claims of the volume; every request is idempotent and applies as a whole or not at all, even across `kill -9`.
/// An implementation provides [`Mounter::perform`]; the other methods wrap one request each.
#[async_trait]
pub trait Mounter: Send + Sync + 'static {
    /// Performs one request.
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse, MountError>;

    /// [`MounterRequest::Staged`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter staged")]
    async fn staged(&self, query: StagedQuery) -> Result<Staged, MountError> {
        match self.perform(MounterRequest::Staged(query)).await? {
            MounterResponse::Staged(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Stage`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter stage")]
    async fn stage(&self, request: StageVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Stage(request)).await?)
    }

    /// [`MounterRequest::Notes`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter notes")]
    async fn notes(&self, key: VolumeKey) -> Result<BTreeMap<String, String>, MountError> {
        match self.perform(MounterRequest::Notes(key)).await? {
            MounterResponse::Notes(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Unstage`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter unstage")]
    async fn unstage(&self, request: UnstageVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Unstage(request)).await?)
    }

    /// [`MounterRequest::Publish`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter publish")]
    async fn publish(&self, request: PublishVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Publish(request)).await?)
    }

    /// [`MounterRequest::Unpublish`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter unpublish")]
    async fn unpublish(&self, request: UnpublishVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Unpublish(request)).await?)
    }

    /// [`MounterRequest::Stats`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter stats")]
    async fn stats(&self, request: StatVolume) -> Result<VolumeStats, MountError> {
        match self.perform(MounterRequest::Stats(request)).await? {
            MounterResponse::Stats(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Health`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter health")]
    async fn health(&self, query: HealthQuery) -> Result<Vec<Health>, MountError> {
        match self.perform(MounterRequest::Health(query)).await? {
            MounterResponse::Health(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Expand`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter expand")]
    async fn expand(&self, request: ExpandVolume) -> Result<u64, MountError> {
        match self.perform(MounterRequest::Expand(request)).await? {
            MounterResponse::Expanded(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Unsettled`].
    async fn unsettled(&self, driver: DriverName) -> Result<Vec<VolumeId>, MountError> {
        match self.perform(MounterRequest::Unsettled(driver)).await? {
            MounterResponse::Unsettled(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::UnsharedRoots`].
    async fn unshared_roots(&self) -> Result<Vec<String>, MountError> {
        match self.perform(MounterRequest::UnsharedRoots).await? {
            MounterResponse::UnsharedRoots(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Recover`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter recover")]
    async fn recover(&self, key: VolumeKey) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Recover(key)).await?)
    }

    /// [`MounterRequest::Pool`].
    async fn pool(&self, driver: DriverName, call: PoolCall) -> Result<PoolReply, MountError> {
        match self.perform(MounterRequest::Pool(driver, call)).await? {
            MounterResponse::Pool(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::VolumesInUse`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter volumes in use")]
    async fn volumes_in_use(&self, driver: DriverName) -> Result<Vec<VolumeInUse>, MountError> {
        match self.perform(MounterRequest::VolumesInUse(driver)).await? {
            MounterResponse::VolumesInUse(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::ConfigDrive`].
    async fn config_drive(&self, driver: DriverName) -> Result<Instance, MountError> {
        match self.perform(MounterRequest::ConfigDrive(driver)).await? {
            MounterResponse::Instance(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::NodeFact`].
    async fn node_fact(
        &self,
        driver: DriverName,
        fact: NodeFact,
    ) -> Result<FactValues, MountError> {
        match self.perform(MounterRequest::NodeFact(driver, fact)).await? {
            MounterResponse::FactValues(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }
}

fn done(response: MounterResponse) -> Result<(), MountError> {
    match response {
        MounterResponse::Done => Ok(()),
        _ => Err(wrong_response()),
    }
}

fn wrong_response() -> MountError {
    MountError::unreachable("it sent the response to another request: this is a bug of the host")
}

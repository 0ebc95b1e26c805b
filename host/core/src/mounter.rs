//! The trait of the mounter: everything that touches the node's mounts, devices and pools, as one request and one response.
//!
//! Every request names the driver: grants, roots and journal belong to a driver and live on the other side.

mod error;

use crate::health::Health;
use crate::names::{DriverName, NodePath, VolumeId};
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
    /// Whose.
    pub driver: DriverName,
    /// Which.
    pub volume: VolumeId,
}

/// Asks whether a volume is staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedQuery {
    /// Which volume.
    pub key: VolumeKey,
    /// Where.
    pub staging_path: NodePath,
    /// How it is wanted.
    pub capability: VolumeCapability,
}

/// What journal and kernel agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Staged {
    /// Not, or not wholly: a stage may go ahead.
    No,
    /// Just as wanted: the answer is OK without asking the backend.
    AsWanted,
}

/// Makes a volume usable at its staging path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageVolume {
    /// Which volume.
    pub key: VolumeKey,
    /// A directory that the client made.
    pub staging_path: NodePath,
    /// How it is wanted.
    pub capability: VolumeCapability,
    /// What it is.
    pub plan: Plan,
    /// Values of the plan's secret options; neither journaled nor compared.
    pub secret_options: SecretOptions,
}

/// Undoes a stage. Needs neither plan nor plugin nor journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnstageVolume {
    /// Which volume.
    pub key: VolumeKey,
    /// Where.
    pub staging_path: NodePath,
}

/// Makes a volume visible at a target path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishVolume {
    /// Which volume.
    pub key: VolumeKey,
    /// Where it was staged; absent for volumes without a stage step.
    pub staging_path: Option<NodePath>,
    /// Made here: a directory, for a raw block volume a file. Its parent exists.
    pub target_path: NodePath,
    /// How it is wanted.
    pub capability: VolumeCapability,
    /// Without writing, whatever the stage was.
    pub readonly: bool,
    /// What it is, for volumes without a stage step.
    pub plan: Option<Plan>,
    /// Values of the plan's secret options; neither journaled nor compared.
    pub secret_options: SecretOptions,
}

/// Undoes a publish, and removes the target. Needs neither plugin nor journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpublishVolume {
    /// Which volume.
    pub key: VolumeKey,
    /// Where.
    pub target_path: NodePath,
}

/// Asks for the use of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatVolume {
    /// Which volume.
    pub key: VolumeKey,
    /// Where it is staged or published.
    pub volume_path: NodePath,
    /// Where it was staged, if the client says so.
    pub staging_path: Option<NodePath>,
}

/// Use of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStats {
    /// In bytes.
    pub bytes: Usage,
    /// In inodes; absent for block volumes and where the file system has no count.
    pub inodes: Option<Usage>,
}

/// How much of something is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All.
    pub total: u64,
    /// In use; absent for block volumes.
    pub used: Option<u64>,
    /// Free for an unprivileged user; absent for block volumes.
    pub available: Option<u64>,
}

/// Asks what is wrong with a volume on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthQuery {
    /// Which volume.
    pub key: VolumeKey,
    /// Where it is published, if the client says so.
    pub publish_path: Option<NodePath>,
    /// Where it is staged, if the client says so.
    pub staging_path: Option<NodePath>,
}

/// A volume that a node has in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeInUse {
    /// Which.
    pub volume: VolumeId,
    /// Where it is staged, if it has such a step.
    pub staging_path: Option<String>,
    /// Where it is published.
    pub target_paths: Vec<String>,
}

/// Grows what the node sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpandVolume {
    /// Which volume.
    pub key: VolumeKey,
    /// Where it is staged or published.
    pub volume_path: NodePath,
    /// At least this many bytes, if said.
    pub required_bytes: Option<u64>,
    /// At most this many bytes, if said.
    pub limit_bytes: Option<u64>,
    /// Grow the pool's object too: the driver has no controller that does (`node-only-expansion`).
    pub grows_object: bool,
}

/// One request to the mounter. It may hold secrets, so it has no `Debug`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum MounterRequest {
    /// Whether a volume is staged. Staged with another capability: [`MountError::AlreadyExists`].
    Staged(StagedQuery),
    /// Checks the whole plan, journals, executes, verifies; rolls back on failure.
    Stage(StageVolume),
    /// The notes of the volume's plan, for `before-unstage`. Empty when nothing is known.
    Notes(VolumeKey),
    /// Unmounts everything that is stacked at the path. Not staged: success.
    Unstage(UnstageVolume),
    /// Binds a staged volume, or executes the plan of one without a stage step. Published alike: success.
    Publish(PublishVolume),
    /// Unmounts everything that is stacked at the path and removes it. Not there: success.
    Unpublish(UnpublishVolume),
    /// Use of the volume. Not mounted there: [`MountError::NotFound`].
    Stats(StatVolume),
    /// What kernel and journal know to be wrong with the volume here; empty: nothing. Storage that does not answer in time is a finding, not
    /// an error. Without a path: all places of the volume. Not mounted there, or nowhere: [`MountError::NotFound`].
    Health(HealthQuery),
    /// Expands what the node sees; the size in bytes afterwards (0: unknown). Less than was asked for: [`MountError::Unusable`].
    Expand(ExpandVolume),
    /// Volumes of a driver whose journal names work that a killed host left half done, or mounts that are gone.
    Unsettled(DriverName),
    /// One sentence for each path root that is not on a shared mount. Beside a kubelet there must be none: it would not see the volumes.
    UnsharedRoots,
    /// Finishes or undoes what an earlier process left of one such volume.
    Recover(VolumeKey),
    /// One call of a backend to its pools. On return the change is on stable storage, with its parent directory.
    Pool(DriverName, PoolCall),
    /// Volumes of a driver that are staged or published here, or on their way to it or from it. It waits for no storage.
    VolumesInUse(DriverName),
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
}

/// What the host does on a node. Implementations: `mount` in this process; a client of `wasmount mounter`.
///
/// Callers hold the claims of the volume; every request is idempotent and leaves either all or nothing, across `kill -9` too.
/// An implementation provides [`Mounter::perform`]; the other methods wrap one request each.
#[async_trait]
pub trait Mounter: Send + Sync + 'static {
    /// Performs one request.
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse, MountError>;

    /// [`MounterRequest::Staged`].
    async fn staged(&self, query: StagedQuery) -> Result<Staged, MountError> {
        match self.perform(MounterRequest::Staged(query)).await? {
            MounterResponse::Staged(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Stage`].
    async fn stage(&self, request: StageVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Stage(request)).await?)
    }

    /// [`MounterRequest::Notes`].
    async fn notes(&self, key: VolumeKey) -> Result<BTreeMap<String, String>, MountError> {
        match self.perform(MounterRequest::Notes(key)).await? {
            MounterResponse::Notes(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Unstage`].
    async fn unstage(&self, request: UnstageVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Unstage(request)).await?)
    }

    /// [`MounterRequest::Publish`].
    async fn publish(&self, request: PublishVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Publish(request)).await?)
    }

    /// [`MounterRequest::Unpublish`].
    async fn unpublish(&self, request: UnpublishVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Unpublish(request)).await?)
    }

    /// [`MounterRequest::Stats`].
    async fn stats(&self, request: StatVolume) -> Result<VolumeStats, MountError> {
        match self.perform(MounterRequest::Stats(request)).await? {
            MounterResponse::Stats(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Health`].
    async fn health(&self, query: HealthQuery) -> Result<Vec<Health>, MountError> {
        match self.perform(MounterRequest::Health(query)).await? {
            MounterResponse::Health(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    }

    /// [`MounterRequest::Expand`].
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
    async fn volumes_in_use(&self, driver: DriverName) -> Result<Vec<VolumeInUse>, MountError> {
        match self.perform(MounterRequest::VolumesInUse(driver)).await? {
            MounterResponse::VolumesInUse(it) => Ok(it),
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

//! The trait of the mounter: everything that touches the node's mounts, devices and pools, as one request and one response.
//!
//! Every request names the driver: grants, path roots and journal belong to a driver and are stored on the mounter's side.

mod error;
mod request;

use crate::health::Health;
use crate::names::{DriverName, VolumeId};
use crate::node_fact::{FactValues, Instance, NodeFact};
use crate::pool::{PoolCall, PoolReply};
use async_trait::async_trait;
use std::collections::BTreeMap;

pub use error::MountError;
pub use request::{
    ExpandVolume, HealthQuery, MounterRequest, MounterResponse, MounterStatus, ProcessUsage,
    PublishVolume, StageVolume, Staged, StagedQuery, StatVolume, UnpublishVolume, UnstageVolume,
    Usage, VolumeInUse, VolumeKey, VolumeStats,
};

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

    /// [`MounterRequest::Status`].
    async fn status(&self) -> Result<MounterStatus, MountError> {
        match self.perform(MounterRequest::Status).await? {
            MounterResponse::Status(it) => Ok(it),
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

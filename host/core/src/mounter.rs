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

/// Performs a request, and takes the value out of the response that belongs to it.
macro_rules! answered {
    ($mounter:expr, $request:expr => $response:ident) => {
        match $mounter.perform($request).await? {
            MounterResponse::$response(it) => Ok(it),
            _ => Err(wrong_response()),
        }
    };
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
        answered!(self, MounterRequest::Staged(query) => Staged)
    }

    /// [`MounterRequest::Stage`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter stage")]
    async fn stage(&self, request: StageVolume) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Stage(request)).await?)
    }

    /// [`MounterRequest::Notes`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter notes")]
    async fn notes(&self, key: VolumeKey) -> Result<BTreeMap<String, String>, MountError> {
        answered!(self, MounterRequest::Notes(key) => Notes)
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
        answered!(self, MounterRequest::Stats(request) => Stats)
    }

    /// [`MounterRequest::Health`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter health")]
    async fn health(&self, query: HealthQuery) -> Result<Vec<Health>, MountError> {
        answered!(self, MounterRequest::Health(query) => Health)
    }

    /// [`MounterRequest::Expand`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter expand")]
    async fn expand(&self, request: ExpandVolume) -> Result<u64, MountError> {
        answered!(self, MounterRequest::Expand(request) => Expanded)
    }

    /// [`MounterRequest::Unsettled`].
    async fn unsettled(&self, driver: DriverName) -> Result<Vec<VolumeId>, MountError> {
        answered!(self, MounterRequest::Unsettled(driver) => Unsettled)
    }

    /// [`MounterRequest::Status`].
    async fn status(&self) -> Result<MounterStatus, MountError> {
        answered!(self, MounterRequest::Status => Status)
    }

    /// [`MounterRequest::Recover`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter recover")]
    async fn recover(&self, key: VolumeKey) -> Result<(), MountError> {
        done(self.perform(MounterRequest::Recover(key)).await?)
    }

    /// [`MounterRequest::Pool`].
    async fn pool(&self, driver: DriverName, call: PoolCall) -> Result<PoolReply, MountError> {
        answered!(self, MounterRequest::Pool(driver, call) => Pool)
    }

    /// [`MounterRequest::VolumesInUse`].
    #[tracing::instrument(level = "debug", skip_all, name = "mounter volumes in use")]
    async fn volumes_in_use(&self, driver: DriverName) -> Result<Vec<VolumeInUse>, MountError> {
        answered!(self, MounterRequest::VolumesInUse(driver) => VolumesInUse)
    }

    /// [`MounterRequest::ConfigDrive`].
    async fn config_drive(&self, driver: DriverName) -> Result<Instance, MountError> {
        answered!(self, MounterRequest::ConfigDrive(driver) => Instance)
    }

    /// [`MounterRequest::NodeFact`].
    async fn node_fact(
        &self,
        driver: DriverName,
        fact: NodeFact,
    ) -> Result<FactValues, MountError> {
        answered!(self, MounterRequest::NodeFact(driver, fact) => FactValues)
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

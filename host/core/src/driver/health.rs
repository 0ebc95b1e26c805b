//! The health calls of CSI 1.13: what is wrong with a volume, seen from the controller and from the node, and with the storage that a node reaches.
//!
//! `said` asks the backend, `listing` walks the volumes, `storage` judges pools, `conditions` makes CSI 1.12's words of the same findings.

mod conditions;
mod listing;
mod said;
mod storage;

pub(super) use said::Said;

use super::work::Work;
use super::{
    Driver, ListVolumeHealthRequest, NodeHealthRequest, Plugin, StorageHealth, VolumeHealth,
    VolumeHealthPage,
};
use crate::call::Incoming;
use crate::code::Code;
use crate::error::Error;
use crate::health::{Health, merged};
use crate::mounter::HealthQuery;
use crate::names::VolumeId;
use crate::rpc::Rpc;
use crate::services::Service;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time for the health of a volume, or of those of one answer, or of a node's storage (contract, `volume-health`).
const HEALTH_TIME: Duration = Duration::from_secs(2);

impl Driver {
    /// ControllerGetVolumeHealth: the backend's view.
    pub async fn controller_get_volume_health(
        self: &Arc<Self>,
        incoming: Incoming,
        id: VolumeId,
    ) -> Result<VolumeHealth, Error> {
        let rpc = Rpc::ControllerGetVolumeHealth;
        self.read(rpc, incoming, |work| async move {
            let findings = work.health_said(&id, in_time()).await?;
            Ok(VolumeHealth { id, findings })
        })
        .await
    }

    /// ControllerListVolumeHealth: the volumes with which something is wrong.
    pub async fn controller_list_volume_health(
        self: &Arc<Self>,
        incoming: Incoming,
        request: ListVolumeHealthRequest,
    ) -> Result<VolumeHealthPage, Error> {
        let rpc = Rpc::ControllerListVolumeHealth;
        self.read(rpc, incoming, |work| async move {
            work.unhealthy_volumes(request).await
        })
        .await
    }

    /// NodeGetVolumeHealth: the host's view, and the backend's where it has one here.
    pub async fn node_get_volume_health(
        self: &Arc<Self>,
        incoming: Incoming,
        request: NodeHealthRequest,
    ) -> Result<VolumeHealth, Error> {
        self.read(Rpc::NodeGetVolumeHealth, incoming, |work| async move {
            let NodeHealthRequest {
                id,
                publish_path,
                staging_path,
            } = request;
            let query = HealthQuery {
                key: work.driver.key(id.clone()),
                publish_path,
                staging_path,
            };
            let (here, backend) = tokio::join!(
                work.driver.mounter.health(query),
                work.health_said_on_node(&id, in_time())
            );
            let backend = backend.unwrap_or_else(|error| {
                // The host's own view must not fail with it.
                tracing::debug!(%error, "the backend cannot tell the volume's health");
                None
            });
            let findings = match (here, backend) {
                (Ok(here), backend) => merged(here.into_iter().chain(backend.unwrap_or_default())),
                // A volume that could not be staged, for its health's sake, is still asked after (CSI, NodeGetVolumeHealth).
                (Err(error), Some(backend)) if error.code() == Code::NotFound => backend,
                (Err(error), _) => return Err(error.into()),
            };
            Ok(VolumeHealth { id, findings })
        })
        .await
    }

    /// NodeGetStorageHealth: pools that do not answer on this node.
    pub async fn node_get_storage_health(
        self: &Arc<Self>,
        incoming: Incoming,
    ) -> Result<Vec<StorageHealth>, Error> {
        self.read(Rpc::NodeGetStorageHealth, incoming, |work| async move {
            work.driver.sick_storage().await
        })
        .await
    }
}

impl Work {
    /// What the backend finds on this node; absent where it has nothing to say here: without a plugin or the export, or when it answers that
    /// its view is the controller's.
    async fn health_said_on_node(
        &self,
        id: &VolumeId,
        until: Instant,
    ) -> Result<Option<Vec<Health>>, Error> {
        let offers = |plugin: &Plugin| plugin.backend.offer().has(Service::VolumeHealth);
        if !self.plugin().is_some_and(offers) {
            return Ok(None);
        }
        match self.health_said(id, until).await {
            Ok(findings) => Ok(Some(findings)),
            Err(error)
                if matches!(error.code(), Code::FailedPrecondition | Code::Unimplemented) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// When an answer about health must be there.
pub(super) fn in_time() -> Instant {
    Instant::now() + HEALTH_TIME
}

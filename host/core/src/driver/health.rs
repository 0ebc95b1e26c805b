//! The health calls of CSI 1.13: health conditions of a volume, seen from the controller and from the node, and of the storage that a node uses.
//!
//! `answers` asks the backend, `listing` walks the volumes, `storage` checks pools. The volume conditions of CSI 1.12 are derived from the same
//! findings.

mod answers;
mod listing;
mod storage;

pub(super) use answers::HealthAnswers;
pub use storage::{Storage, VolumesInUse};

use super::work::Work;
use super::{
    Driver, ListVolumeHealthRequest, NodeHealthRequest, Plugin, StorageHealth, VolumeHealth,
    VolumeHealthPage,
};
use crate::call::Incoming;
use crate::code::Code;
use crate::error::Error;
use crate::health::{Health, condition, merged};
use crate::mounter::HealthQuery;
use crate::names::VolumeId;
use crate::rpc::Rpc;
use crate::services::Service;
use crate::volume::{VolumeCondition, VolumeEntry};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time for the health of one volume, of the volumes of one answer, or of a node's storage (contract, `volume-health`).
const HEALTH_TIME: Duration = Duration::from_secs(2);

/// The findings of the host or the backend, or why it has none.
type View = Result<Vec<Health>, String>;

impl Driver {
    /// ControllerGetVolumeHealth: the backend's view.
    pub async fn controller_get_volume_health(
        self: &Arc<Self>,
        incoming: Incoming,
        id: VolumeId,
    ) -> Result<VolumeHealth, Error> {
        let rpc = Rpc::ControllerGetVolumeHealth;
        self.read(rpc, incoming, |work| async move {
            let findings = work.backend_health(&id, in_time()).await?;
            Ok(VolumeHealth { id, findings })
        })
        .await
    }

    /// ControllerListVolumeHealth: the volumes with a health condition.
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

    /// NodeGetVolumeHealth: the host's view, and the backend's if it has one on this node.
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
                work.backend_health_on_node(&id, in_time())
            );
            let backend = backend.unwrap_or_else(|error| {
                // The host's own view must not fail because of the backend.
                tracing::debug!(%error, "the backend does not report the volume's health");
                None
            });
            let findings = match (here, backend) {
                (Ok(here), backend) => merged(here.into_iter().chain(backend.unwrap_or_default())),
                // The client may also ask about a volume that could not be staged because of its health (CSI, NodeGetVolumeHealth).
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
            Ok(work.driver.storage().await?.sick)
        })
        .await
    }
}

impl Work {
    /// The backend's findings on this node; absent if it has none here: without a plugin or the export, or when it answers that its view is the
    /// controller's.
    async fn backend_health_on_node(
        &self,
        id: &VolumeId,
        until: Instant,
    ) -> Result<Option<Vec<Health>>, Error> {
        let offers = |plugin: &Plugin| plugin.backend.offer().has(Service::VolumeHealth);
        if !self.plugin().is_some_and(offers) {
            return Ok(None);
        }
        match self.backend_health(id, until).await {
            Ok(findings) => Ok(Some(findings)),
            Err(error)
                if matches!(error.code(), Code::FailedPrecondition | Code::Unimplemented) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Adds a condition to every volume without one, as VOLUME_CONDITION requires.
    pub(super) async fn fill_conditions(&self, entries: &mut [VolumeEntry], until: Instant) {
        for entry in entries {
            if entry.status.condition.is_none() {
                let view = self.view_of_backend(&entry.volume.id, until).await;
                entry.status.condition = Some(of_views([view]));
            }
        }
    }

    /// The condition of a volume on this node: the host's findings and the backend's.
    pub(super) async fn node_condition(&self, id: &VolumeId) -> VolumeCondition {
        let until = in_time();
        // All paths of the volume: a failing one makes the volume abnormal, whichever path the statistics were requested for.
        let query = HealthQuery {
            key: self.driver.key(id.clone()),
            publish_path: None,
            staging_path: None,
        };
        let here = async {
            match timeout_at(until, self.driver.mounter.health(query)).await {
                Ok(here) => here.map_err(|error| error.to_string()),
                Err(_) => Err("the host did not determine it in time".to_owned()),
            }
        };
        let backend = async {
            let findings = self.backend_health_on_node(id, until).await;
            findings
                .map(Option::unwrap_or_default)
                .map_err(|error| error.to_string())
        };
        let (here, backend) = tokio::join!(here, backend);
        of_views([here, backend])
    }

    async fn view_of_backend(&self, id: &VolumeId, until: Instant) -> View {
        if Instant::now() >= until && self.driver.health.known(&self.view(id)).is_none() {
            return Err("the call had no time left to ask the backend".to_owned());
        }
        let findings = self.backend_health(id, until).await;
        findings.map_err(|error| error.to_string())
    }
}

/// The deadline of an answer about health.
pub(super) fn in_time() -> Instant {
    Instant::now() + HEALTH_TIME
}

/// A finding counts even if the other view is unknown. A volume is not abnormal because no view could be obtained.
fn of_views(views: impl IntoIterator<Item = View>) -> VolumeCondition {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for view in views {
        match view {
            Ok(findings) => found.extend(findings),
            Err(reason) => unknown.push(reason),
        }
    }
    if found.is_empty() && !unknown.is_empty() {
        return VolumeCondition {
            abnormal: false,
            message: format!("the condition is not known: {}", unknown.join("; ")),
        };
    }
    condition(&merged(found))
}

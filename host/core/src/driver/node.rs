//! CSI's Node service: the backend plans a volume, the mounter does the rest. Only the first stage, and the publish of a volume without a stage step,
//! call the plugin; everything else is answered from kernel and journal, so that a missing plugin never delays a pod.

use super::controller::{not_offered, of_volume};
use super::work::Work;
use super::{
    Driver, NodeExpandRequest, NodePublishRequest, NodeStageRequest, NodeStats, NodeStatsRequest,
};
use crate::call::Incoming;
use crate::capabilities::NodeCapability;
use crate::claims::{Subject, claims};
use crate::error::Error;
use crate::mounter::{
    ExpandVolume, HealthQuery, MountError, PublishVolume, StageVolume, Staged, StagedQuery,
    StatVolume, UnpublishVolume, UnstageVolume,
};
use crate::names::{NodePath, VolumeId};
use crate::plan::Plan;
use crate::rpc::Rpc;
use crate::secrets::SecretOptions;
use crate::services::{Feature, Service};
use std::sync::Arc;

impl Driver {
    /// NodeStageVolume.
    pub async fn node_stage_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        request: NodeStageRequest,
    ) -> Result<(), Error> {
        let rpc = Rpc::NodeStageVolume;
        let claims = claims(rpc, of_volume(&request.volume.id));
        self.run(rpc, incoming, claims, |work| async move {
            let NodeStageRequest {
                volume,
                staging_path,
            } = request;
            let query = StagedQuery {
                key: work.driver.key(volume.id.clone()),
                staging_path,
                capability: volume.capability.clone(),
            };
            match work.driver.mounter.staged(query.clone()).await? {
                Staged::AsWanted => return Ok(()),
                Staged::No => {}
            }
            let backend = work.backend()?;
            let plan = backend.node_stage(&work.call, volume).await?;
            let secret_options = backend.secret_options(&work.call, &query.key.volume, &plan)?;
            let stage = StageVolume {
                key: query.key,
                staging_path: query.staging_path,
                capability: query.capability,
                secret_options,
                plan,
            };
            let staged = work.driver.mounter.stage(stage).await;
            staged.map_err(|error| work.of_plan(error))
        })
        .await
    }

    /// NodeUnstageVolume.
    pub async fn node_unstage_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        id: VolumeId,
        staging_path: NodePath,
    ) -> Result<(), Error> {
        let rpc = Rpc::NodeUnstageVolume;
        let claims = claims(rpc, of_volume(&id));
        self.run(rpc, incoming, claims, |work| async move {
            work.before_unstage(&id).await?;
            let unstage = UnstageVolume {
                key: work.driver.key(id.clone()),
                staging_path,
            };
            work.driver.mounter.unstage(unstage).await?;
            work.driver.hooks.forget(&id);
            Ok(())
        })
        .await
    }

    /// NodePublishVolume.
    pub async fn node_publish_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        request: NodePublishRequest,
    ) -> Result<(), Error> {
        let rpc = Rpc::NodePublishVolume;
        let subject = Subject {
            target: Some(&request.target_path),
            ..of_volume(&request.volume.id)
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            let staging_path = work.staging_path(&request)?;
            let (plan, secret_options) = match &staging_path {
                Some(_) => (None, SecretOptions::default()),
                None => {
                    let plan = work.publish_plan(&request).await?;
                    let (backend, id) = (work.backend()?, &request.volume.id);
                    let secrets = backend.secret_options(&work.call, id, &plan)?;
                    (Some(plan), secrets)
                }
            };
            let is_planned = plan.is_some();
            let publish = PublishVolume {
                key: work.driver.key(request.volume.id),
                staging_path,
                target_path: request.target_path,
                capability: request.volume.capability,
                readonly: request.volume.readonly,
                plan,
                secret_options,
            };
            let published = work.driver.mounter.publish(publish).await;
            published.map_err(|error| match error {
                error if is_planned => work.of_plan(error),
                error => error.into(),
            })
        })
        .await
    }

    /// NodeUnpublishVolume.
    pub async fn node_unpublish_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        id: VolumeId,
        target_path: NodePath,
    ) -> Result<(), Error> {
        let rpc = Rpc::NodeUnpublishVolume;
        let subject = Subject {
            target: Some(&target_path),
            ..of_volume(&id)
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            let unpublish = UnpublishVolume {
                key: work.driver.key(id),
                target_path,
            };
            Ok(work.driver.mounter.unpublish(unpublish).await?)
        })
        .await
    }

    /// NodeGetVolumeStats.
    pub async fn node_get_volume_stats(
        self: &Arc<Self>,
        incoming: Incoming,
        request: NodeStatsRequest,
    ) -> Result<NodeStats, Error> {
        self.read(Rpc::NodeGetVolumeStats, incoming, |work| async move {
            let stat = StatVolume {
                key: work.driver.key(request.id.clone()),
                volume_path: request.volume_path,
                staging_path: request.staging_path,
            };
            let reports_condition = work.node_offers(NodeCapability::VolumeCondition);
            let condition = async {
                match reports_condition {
                    true => Some(work.node_condition(&request.id).await),
                    false => None,
                }
            };
            let usage = work.driver.mounter.stats(stat.clone());
            let (usage, condition) = tokio::join!(usage, condition);
            let usage = match usage {
                Ok(usage) => Some(usage),
                // kubelet reports a condition to the pod, but not an error. It accepts an answer without usage then.
                Err(MountError::NotFound { .. })
                    if reports_condition && work.was_published(stat).await =>
                {
                    None
                }
                Err(error) => return Err(error.into()),
            };
            Ok(NodeStats { usage, condition })
        })
        .await
    }

    /// NodeExpandVolume; the answer is the size in bytes (0: unknown).
    pub async fn node_expand_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        request: NodeExpandRequest,
    ) -> Result<u64, Error> {
        let rpc = Rpc::NodeExpandVolume;
        let claims = claims(rpc, of_volume(&request.id));
        self.run(rpc, incoming, claims, |work| async move {
            let expand = ExpandVolume {
                key: work.driver.key(request.id),
                volume_path: request.volume_path,
                required_bytes: request.capacity.required(),
                limit_bytes: request.capacity.limit(),
                // Else the controller has expanded it.
                grows_object: work.claims(Feature::NodeOnlyExpansion),
            };
            match work.driver.mounter.expand(expand).await {
                // Without a plugin it is unknown whether the node must expand the volume; kubelet does not retry a call after a final error.
                Err(error @ MountError::Unusable { .. }) if work.plugin().is_none() => {
                    work.backend()?;
                    Err(Error::from(error))
                }
                expanded => Ok(expanded?),
            }
        })
        .await
    }
}

impl Work {
    fn node_offers(&self, capability: NodeCapability) -> bool {
        self.plugin()
            .is_some_and(|plugin| plugin.capabilities.node.contains(&capability))
    }

    /// Whether the volume should be mounted at a path where it is not.
    async fn was_published(&self, stat: StatVolume) -> bool {
        let query = HealthQuery {
            key: stat.key,
            publish_path: Some(stat.volume_path),
            staging_path: None,
        };
        let found = self.driver.mounter.health(query).await;
        found.is_ok_and(|found| !found.is_empty())
    }

    /// The staging path of the volume; absent for a volume without a stage step, which needs a plan instead. Without a plugin the driver advertises
    /// staging, so a staging path means a staged volume.
    fn staging_path(&self, request: &NodePublishRequest) -> Result<Option<NodePath>, Error> {
        let stages =
            self.plugin().is_none() || self.node_offers(NodeCapability::StageUnstageVolume);
        match &request.staging_path {
            _ if request.volume.ephemeral || !stages => Ok(None),
            Some(path) => Ok(Some(path.clone())),
            // Without a plugin it is unknown whether a plan would suffice.
            None => self.backend().and_then(|_| {
                self.require_pod_info(request)?;
                Err(Error::Precondition(
                    "staging_target_path is missing: this driver stages volumes, call NodeStageVolume first"
                        .to_owned(),
                ))
            }),
        }
    }

    /// Pod info is not required for a staged volume.
    fn require_pod_info(&self, request: &NodePublishRequest) -> Result<(), Error> {
        let name = self.driver.name();
        let pod_info = self.policy().pod_info;
        pod_info.require(name, &request.volume.volume_context, &self.call.secrets)
    }

    async fn publish_plan(&self, request: &NodePublishRequest) -> Result<Plan, Error> {
        let backend = self.backend()?;
        if !backend.offer().has(Service::NodePublish) {
            return Err(not_offered("publishing a volume that is not staged"));
        }
        self.require_pod_info(request)?;
        let volume = request.volume.clone();
        Ok(backend.node_publish(&self.call, volume).await?)
    }
}

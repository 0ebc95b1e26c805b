//! CSI's Controller service, without snapshots: volumes as the backend knows them. The driver makes the decisions that CSI leaves to no backend:
//! whether a source or a mutable parameter is supported at all, and whether the answer repeats its source.

use super::Driver;
use super::health::in_time;
use super::paging::{bytes_of_volume, joined};
use super::work::Work;
use crate::attributes::Attributes;
use crate::backend::{
    Available, ControllerExpand, ControllerPublish, CreateVolume, Expanded, GetCapacity,
    ValidateVolume, Validation,
};
use crate::call::Incoming;
use crate::capabilities::{ControllerCapability, PluginCapability};
use crate::claims::{Subject, claims, volume_alone};
use crate::error::Error;
use crate::names::{NodeId, VolumeId};
use crate::rpc::Rpc;
use crate::services::Feature;
use crate::volume::{ContentSource, Page, PageRequest, Volume, VolumeEntry};
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

impl Driver {
    /// CreateVolume.
    pub async fn create_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        args: CreateVolume,
    ) -> Result<Volume, Error> {
        let rpc = Rpc::CreateVolume;
        let subject = Subject {
            name: Some(&args.name),
            source: args.content_source.as_ref(),
            ..Subject::default()
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            work.check_offered(&args)?;
            let name = args.name.clone();
            let mut volume = work.backend()?.create_volume(&work.call, args).await?;
            if !work.places_volumes() {
                volume.accessible_topology.clear();
            }
            // The answer publishes the id: no other call may run on it, such as the deletion of an earlier volume.
            let _created = work.driver.claims.acquire(volume_alone(&volume.id))?;
            work.driver.keep_place(&name, &volume.id).await?;
            Ok(volume)
        })
        .await
    }

    /// DeleteVolume.
    pub async fn delete_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        id: VolumeId,
    ) -> Result<(), Error> {
        let rpc = Rpc::DeleteVolume;
        let claims = claims(rpc, of_volume(&id));
        self.run(rpc, incoming, claims, |work| async move {
            work.backend()?
                .delete_volume(&work.call, id.clone())
                .await?;
            work.driver.health.forget(&id);
            Ok(())
        })
        .await
    }

    /// ControllerPublishVolume; the answer is the publish context.
    pub async fn controller_publish_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        args: ControllerPublish,
    ) -> Result<Attributes, Error> {
        let rpc = Rpc::ControllerPublishVolume;
        let subject = Subject {
            node: Some(&args.node),
            ..of_volume(&args.id)
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            if args.readonly && !work.offers(ControllerCapability::PublishReadonly) {
                return Err(not_offered("publishing a volume as read-only"));
            }
            Ok(work.backend()?.controller_publish(&work.call, args).await?)
        })
        .await
    }

    /// ControllerUnpublishVolume; without a node id, from all nodes.
    pub async fn controller_unpublish_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        id: VolumeId,
        node: Option<NodeId>,
    ) -> Result<(), Error> {
        let rpc = Rpc::ControllerUnpublishVolume;
        let subject = Subject {
            node: node.as_ref(),
            ..of_volume(&id)
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            let backend = work.backend()?;
            Ok(backend.controller_unpublish(&work.call, id, node).await?)
        })
        .await
    }

    /// ValidateVolumeCapabilities.
    pub async fn validate_volume_capabilities(
        self: &Arc<Self>,
        incoming: Incoming,
        args: ValidateVolume,
    ) -> Result<Validation, Error> {
        self.read(
            Rpc::ValidateVolumeCapabilities,
            incoming,
            |work| async move { Ok(work.backend()?.validate_volume(&work.call, args).await?) },
        )
        .await
    }

    /// ListVolumes.
    pub async fn list_volumes(
        self: &Arc<Self>,
        incoming: Incoming,
        page: PageRequest,
    ) -> Result<Page<VolumeEntry>, Error> {
        self.read(Rpc::ListVolumes, incoming, |work| async move {
            // Starts with the first volume, and is the same for all pages.
            let until = OnceLock::new();
            let (work, until) = (work.as_ref(), &until);
            let query = |page| async move {
                let mut page = work.backend()?.list_volumes(&work.call, page).await?;
                let until = *until.get_or_init(in_time);
                work.complete(&mut page.entries, until).await;
                Ok(page)
            };
            joined(work, "list-volumes", page, bytes_of_volume, query).await
        })
        .await
    }

    /// ControllerGetVolume.
    pub async fn controller_get_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        id: VolumeId,
    ) -> Result<VolumeEntry, Error> {
        self.read(Rpc::ControllerGetVolume, incoming, |work| async move {
            let mut entry = work.backend()?.get_volume(&work.call, id).await?;
            work.complete(std::slice::from_mut(&mut entry), in_time())
                .await;
            Ok(entry)
        })
        .await
    }

    /// GetCapacity.
    pub async fn get_capacity(
        self: &Arc<Self>,
        incoming: Incoming,
        args: GetCapacity,
    ) -> Result<Available, Error> {
        self.read(Rpc::GetCapacity, incoming, |work| async move {
            Ok(work.backend()?.get_capacity(&work.call, args).await?)
        })
        .await
    }

    /// ControllerExpandVolume.
    pub async fn controller_expand_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        args: ControllerExpand,
    ) -> Result<Expanded, Error> {
        let rpc = Rpc::ControllerExpandVolume;
        let claims = claims(rpc, of_volume(&args.id));
        self.run(rpc, incoming, claims, |work| async move {
            Ok(work.backend()?.controller_expand(&work.call, args).await?)
        })
        .await
    }

    /// ControllerModifyVolume.
    pub async fn controller_modify_volume(
        self: &Arc<Self>,
        incoming: Incoming,
        id: VolumeId,
        mutable: Attributes,
    ) -> Result<(), Error> {
        let rpc = Rpc::ControllerModifyVolume;
        let claims = claims(rpc, of_volume(&id));
        self.run(rpc, incoming, claims, |work| async move {
            let backend = work.backend()?;
            Ok(backend.modify_volume(&work.call, id, mutable).await?)
        })
        .await
    }
}

impl Work {
    fn check_offered(&self, args: &CreateVolume) -> Result<(), Error> {
        use ControllerCapability as C;
        match &args.content_source {
            Some(ContentSource::Volume(_)) if !self.offers(C::CloneVolume) => {
                return Err(not_offered("a volume as the source of another"));
            }
            Some(ContentSource::Snapshot(_)) if !self.offers(C::CreateDeleteSnapshot) => {
                return Err(not_offered("a snapshot as the source of a volume"));
            }
            _ => {}
        }
        if !args.mutable_parameters.is_empty() && !self.offers(C::ModifyVolume) {
            return Err(not_offered("mutable_parameters"));
        }
        Ok(())
    }

    /// "A plugin that returns this field MUST also set the VOLUME_ACCESSIBILITY_CONSTRAINTS plugin capability" (CSI, `accessible_topology`).
    fn places_volumes(&self) -> bool {
        self.is(PluginCapability::VolumeAccessibilityConstraints)
    }

    /// Adapts listed volumes to the advertised capabilities: no published nodes without the feature, a condition with VOLUME_CONDITION, a topology
    /// where volumes have one.
    async fn complete(&self, entries: &mut [VolumeEntry], until: Instant) {
        let (profile, hidden) = (self.driver.profile(), &self.policy().hidden);
        let lists_nodes = !hidden.hides(ControllerCapability::ListVolumesPublishedNodes.name())
            && self.claims(Feature::PublishedNodes);
        let shows_condition =
            profile.has_conditions() && !hidden.hides(ControllerCapability::VolumeCondition.name());
        for entry in &mut *entries {
            if !lists_nodes {
                entry.status.published_nodes.clear();
            }
            if !self.places_volumes() {
                entry.volume.accessible_topology.clear();
            }
            if !shows_condition {
                entry.status.condition = None;
            }
        }
        if shows_condition && self.offers(ControllerCapability::VolumeCondition) {
            self.fill_conditions(entries, until).await;
        }
    }
}

pub(super) fn of_volume(id: &VolumeId) -> Subject<'_> {
    Subject {
        volume: Some(id),
        ..Subject::default()
    }
}

pub(super) fn not_offered(what: &'static str) -> Error {
    Error::NotOffered { what }
}

//! The calls of the backend in memory.

use super::{MOMENT, MemoryBackend, VOLUME_BYTES, not_found, place, tmpfs};
use async_trait::async_trait;
use std::sync::atomic::Ordering;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::*;
use wasmount_core::call::Call;
use wasmount_core::code::Code;
use wasmount_core::health::{Health, HealthStatus};
use wasmount_core::names::{GroupSnapshotId, NodeId, SnapshotId, VolumeId};
use wasmount_core::plan::Plan;
use wasmount_core::secrets::SecretOptions;
use wasmount_core::services::ServiceSet;
use wasmount_core::snapshot::{GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::volume::{Page, PageRequest, Volume, VolumeEntry};

#[async_trait]
impl Backend for MemoryBackend {
    fn label(&self) -> &PluginLabel {
        &self.label
    }

    fn offer(&self) -> &ServiceSet {
        &self.offer
    }

    fn secret_options(
        &self,
        call: &Call,
        _: &VolumeId,
        plan: &Plan,
    ) -> Result<SecretOptions, BackendError> {
        Ok(plan.secret_options(&call.secrets, &self.secrets))
    }

    fn manifest(&self) -> &Attributes {
        &self.manifest
    }

    fn load(&self) -> Load {
        Load::default()
    }

    async fn probe(&self, _: &Call) -> Result<bool, BackendError> {
        Ok(true)
    }

    async fn create_volume(&self, call: &Call, args: CreateVolume) -> Result<Volume, BackendError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.read().await);
        *self.password.lock().unwrap() = call.secrets.get("password").map(str::to_owned);
        let volume = Volume {
            id: VolumeId::parse("id", format!("v-{}", args.name)).unwrap(),
            capacity_bytes: args.capacity.required().unwrap_or(VOLUME_BYTES),
            context: args.parameters,
            content_source: args.content_source,
            accessible_topology: vec![place()],
        };
        let found = self
            .volumes
            .lock()
            .unwrap()
            .entry(volume.id.to_string())
            .or_insert(volume.clone())
            .clone();
        if found.capacity_bytes != volume.capacity_bytes {
            let message = format!("{} exists with another size", volume.id);
            return Err(BackendError::Answered {
                code: Code::AlreadyExists,
                message,
            });
        }
        self.created.fetch_add(1, Ordering::SeqCst);
        Ok(found)
    }

    async fn delete_volume(&self, call: &Call, id: VolumeId) -> Result<(), BackendError> {
        *self.password.lock().unwrap() = call.secrets.get("password").map(str::to_owned);
        self.volumes.lock().unwrap().remove(id.as_str());
        Ok(())
    }

    async fn validate_volume(
        &self,
        _: &Call,
        args: ValidateVolume,
    ) -> Result<Validation, BackendError> {
        self.volume(&args.id)?;
        Ok(match args.parameters.get("unsupported") {
            None => Validation::Confirmed,
            Some(reason) => Validation::Unsupported(reason.to_owned()),
        })
    }

    async fn controller_publish(
        &self,
        _: &Call,
        args: ControllerPublish,
    ) -> Result<Attributes, BackendError> {
        self.volume(&args.id)?;
        Ok(Attributes::from_iter([(
            "device".to_owned(),
            format!("on-{}", args.node),
        )]))
    }

    async fn controller_unpublish(
        &self,
        _: &Call,
        _: VolumeId,
        _: Option<NodeId>,
    ) -> Result<(), BackendError> {
        Ok(())
    }

    async fn controller_expand(
        &self,
        _: &Call,
        args: ControllerExpand,
    ) -> Result<Expanded, BackendError> {
        self.volume(&args.id)?;
        let capacity_bytes = args.capacity.required().unwrap_or(VOLUME_BYTES);
        Ok(Expanded {
            capacity_bytes,
            node_expansion_required: true,
        })
    }

    async fn modify_volume(
        &self,
        _: &Call,
        id: VolumeId,
        _: Attributes,
    ) -> Result<(), BackendError> {
        self.volume(&id).map(drop)
    }

    async fn list_volumes(
        &self,
        _: &Call,
        page: PageRequest,
    ) -> Result<Page<VolumeEntry>, BackendError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let after = page.starting_token.unwrap_or_default();
        let limit = page.max_entries.map_or(usize::MAX, |limit| limit as usize);
        let volumes = self.volumes.lock().unwrap();
        let mut later = volumes
            .iter()
            .filter(|(id, _)| **id > after)
            .map(|(_, volume)| volume.clone());
        let entries = later
            .by_ref()
            .take(limit)
            .map(Self::entry)
            .collect::<Vec<_>>();
        let last = entries.last().map(|entry| entry.volume.id.to_string());
        Ok(Page {
            entries,
            next_token: later.next().and(last),
        })
    }

    async fn get_volume(&self, _: &Call, id: VolumeId) -> Result<VolumeEntry, BackendError> {
        self.volume(&id).map(Self::entry)
    }

    async fn get_capacity(&self, _: &Call, _: GetCapacity) -> Result<Available, BackendError> {
        Ok(Available {
            available_bytes: 1 << 30,
            maximum_volume_bytes: Some(1 << 20),
            minimum_volume_bytes: None,
        })
    }

    async fn create_snapshot(
        &self,
        _: &Call,
        args: CreateSnapshot,
    ) -> Result<Snapshot, BackendError> {
        self.snapshot_of(&args.source_volume, args.name.as_str())
    }

    async fn delete_snapshot(&self, _: &Call, id: SnapshotId) -> Result<(), BackendError> {
        self.snapshots.lock().unwrap().remove(id.as_str());
        Ok(())
    }

    async fn get_snapshot(&self, _: &Call, id: SnapshotId) -> Result<Snapshot, BackendError> {
        self.snapshots
            .lock()
            .unwrap()
            .get(id.as_str())
            .cloned()
            .ok_or_else(|| not_found(id))
    }

    async fn list_snapshots(
        &self,
        _: &Call,
        args: ListSnapshots,
    ) -> Result<Page<Snapshot>, BackendError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let after = args.page.starting_token.unwrap_or_default();
        let limit = args
            .page
            .max_entries
            .map_or(usize::MAX, |limit| limit as usize);
        let snapshots = self.snapshots.lock().unwrap();
        let wanted = |snapshot: &&Snapshot| {
            snapshot.id.as_str() > after.as_str()
                && args
                    .source_volume
                    .as_ref()
                    .is_none_or(|id| *id == snapshot.source_volume)
        };
        let mut later = snapshots.values().filter(wanted).cloned();
        let entries = later.by_ref().take(limit).collect::<Vec<_>>();
        let last = entries.last().map(|snapshot| snapshot.id.to_string());
        Ok(Page {
            entries,
            next_token: later.next().and(last),
        })
    }

    async fn create_group(
        &self,
        _: &Call,
        args: CreateGroup,
    ) -> Result<GroupSnapshot, BackendError> {
        let id = GroupSnapshotId::parse("id", format!("g-{}", args.name)).unwrap();
        let members = args.source_volumes.iter().map(|source| {
            let snapshot = self.snapshot_of(source, &format!("{}-{source}", args.name))?;
            Ok(Snapshot {
                group: Some(id.clone()),
                ..snapshot
            })
        });
        let snapshots = members.collect::<Result<_, BackendError>>()?;
        let group = GroupSnapshot {
            id,
            snapshots,
            created_at: MOMENT,
            ready_to_use: true,
        };
        self.groups
            .lock()
            .unwrap()
            .insert(group.id.to_string(), group.clone());
        Ok(group)
    }

    async fn delete_group(
        &self,
        _: &Call,
        id: GroupSnapshotId,
        _: Vec<SnapshotId>,
    ) -> Result<(), BackendError> {
        self.groups.lock().unwrap().remove(id.as_str());
        Ok(())
    }

    async fn get_group(
        &self,
        _: &Call,
        id: GroupSnapshotId,
        _: Vec<SnapshotId>,
    ) -> Result<GroupSnapshot, BackendError> {
        self.groups
            .lock()
            .unwrap()
            .get(id.as_str())
            .cloned()
            .ok_or_else(|| not_found(id))
    }

    /// The number in the snapshot's name is its size; the second page of `waits` never arrives.
    async fn get_allocated(
        &self,
        call: &Call,
        id: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, BackendError> {
        if id.as_str() == "waits" {
            let page = self.extents(u64::MAX, offset, 1);
            if offset > 0 {
                call.cancelled.cancelled().await;
                self.stopped.fetch_add(1, Ordering::SeqCst);
                return Err(BackendError::Cancelled);
            }
            return Ok(page);
        }
        let size = id.as_str().parse().map_err(|_| not_found(&id))?;
        Ok(self.extents(size, offset, max))
    }

    async fn get_delta(
        &self,
        call: &Call,
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, BackendError> {
        base.as_str().parse::<u64>().map_err(|_| not_found(&base))?;
        self.get_allocated(call, target, offset, max).await
    }

    /// All volumes are slow, except `v-well`; one that does not exist is not found.
    async fn volume_health(&self, _: &Call, id: VolumeId) -> Result<Vec<Health>, BackendError> {
        self.volume(&id)?;
        if id.as_str() == "v-well" {
            return Ok(vec![]);
        }
        Ok(vec![Health {
            status: HealthStatus::Degraded,
            reason: "Degraded".to_owned(),
            message: "a disk is slow".to_owned(),
        }])
    }

    async fn node_info(&self, _: &Call) -> Result<NodeDescription, BackendError> {
        Ok(NodeDescription {
            id: None,
            max_volumes: Some(39),
            topology: Some(place()),
        })
    }

    async fn node_stage(&self, _: &Call, args: NodeStage) -> Result<Plan, BackendError> {
        self.volume(&args.id)?;
        Ok(tmpfs())
    }

    async fn node_publish(&self, _: &Call, _: NodePublish) -> Result<Plan, BackendError> {
        Ok(tmpfs())
    }

    async fn before_unstage(
        &self,
        _: &Call,
        _: VolumeId,
        _: Attributes,
    ) -> Result<(), BackendError> {
        Ok(())
    }

    async fn register_node(&self, _: &Call, _: NodeId) -> Result<(), BackendError> {
        Ok(())
    }

    async fn unregister_node(&self, _: &Call, _: NodeId) -> Result<(), BackendError> {
        Ok(())
    }
}

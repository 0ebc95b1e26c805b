//! A component as a storage backend: the trait's implementation.

use crate::program::Program;
use async_trait::async_trait;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{
    Available, Backend, BackendError, ControllerExpand, ControllerPublish, CreateGroup,
    CreateSnapshot, CreateVolume, Expanded, GetCapacity, ListSnapshots, NodeDescription,
    NodePublish, NodeStage, PluginLabel, ValidateVolume, Validation,
};
use wasmount_core::call::Call;
use wasmount_core::health::Health;
use wasmount_core::names::{GroupSnapshotId, NodeId, SnapshotId, VolumeId};
use wasmount_core::plan::Plan;
use wasmount_core::services::ServiceSet;
use wasmount_core::snapshot::{GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::volume::{Page, PageRequest, Volume, VolumeEntry};

/// One admitted version of one backend. Each call runs in an instance of its own.
pub struct WasmBackend {
    program: Program,
    offer: ServiceSet,
    manifest: Attributes,
}

impl WasmBackend {
    pub(crate) fn new(program: Program, offer: ServiceSet, manifest: Attributes) -> Self {
        Self {
            program,
            offer,
            manifest,
        }
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }
}

#[async_trait]
impl Backend for WasmBackend {
    fn label(&self) -> &PluginLabel {
        &self.program.label
    }

    fn offer(&self) -> &ServiceSet {
        &self.offer
    }

    fn manifest(&self) -> &Attributes {
        &self.manifest
    }

    async fn probe(&self, call: &Call) -> Result<bool, BackendError> {
        self.program.probe(call).await
    }

    async fn create_volume(&self, call: &Call, args: CreateVolume) -> Result<Volume, BackendError> {
        self.program.create_volume(call, args).await
    }

    async fn delete_volume(&self, call: &Call, id: VolumeId) -> Result<(), BackendError> {
        self.program.delete_volume(call, id).await
    }

    async fn validate_volume(
        &self,
        call: &Call,
        args: ValidateVolume,
    ) -> Result<Validation, BackendError> {
        self.program.validate_volume(call, args).await
    }

    async fn controller_publish(
        &self,
        call: &Call,
        args: ControllerPublish,
    ) -> Result<Attributes, BackendError> {
        self.program.controller_publish(call, args).await
    }

    async fn controller_unpublish(
        &self,
        call: &Call,
        id: VolumeId,
        node: Option<NodeId>,
    ) -> Result<(), BackendError> {
        self.program.controller_unpublish(call, id, node).await
    }

    async fn controller_expand(
        &self,
        call: &Call,
        args: ControllerExpand,
    ) -> Result<Expanded, BackendError> {
        self.program.controller_expand(call, args).await
    }

    async fn modify_volume(
        &self,
        call: &Call,
        id: VolumeId,
        mutable: Attributes,
    ) -> Result<(), BackendError> {
        self.program.modify_volume(call, id, mutable).await
    }

    async fn list_volumes(
        &self,
        call: &Call,
        page: PageRequest,
    ) -> Result<Page<VolumeEntry>, BackendError> {
        self.program.list_volumes(call, page).await
    }

    async fn get_volume(&self, call: &Call, id: VolumeId) -> Result<VolumeEntry, BackendError> {
        self.program.get_volume(call, id).await
    }

    async fn get_capacity(
        &self,
        call: &Call,
        args: GetCapacity,
    ) -> Result<Available, BackendError> {
        self.program.get_capacity(call, args).await
    }

    async fn create_snapshot(
        &self,
        call: &Call,
        args: CreateSnapshot,
    ) -> Result<Snapshot, BackendError> {
        self.program.create_snapshot(call, args).await
    }

    async fn delete_snapshot(&self, call: &Call, id: SnapshotId) -> Result<(), BackendError> {
        self.program.delete_snapshot(call, id).await
    }

    async fn get_snapshot(&self, call: &Call, id: SnapshotId) -> Result<Snapshot, BackendError> {
        self.program.get_snapshot(call, id).await
    }

    async fn list_snapshots(
        &self,
        call: &Call,
        args: ListSnapshots,
    ) -> Result<Page<Snapshot>, BackendError> {
        self.program.list_snapshots(call, args).await
    }

    async fn create_group(
        &self,
        call: &Call,
        args: CreateGroup,
    ) -> Result<GroupSnapshot, BackendError> {
        self.program.create_group(call, args).await
    }

    async fn delete_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Result<(), BackendError> {
        self.program.delete_group(call, id, snapshots).await
    }

    async fn get_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Result<GroupSnapshot, BackendError> {
        self.program.get_group(call, id, snapshots).await
    }

    async fn get_allocated(
        &self,
        call: &Call,
        id: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, BackendError> {
        self.program.get_allocated(call, id, offset, max).await
    }

    async fn get_delta(
        &self,
        call: &Call,
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, BackendError> {
        self.program
            .get_delta(call, base, target, offset, max)
            .await
    }

    async fn volume_health(&self, call: &Call, id: VolumeId) -> Result<Vec<Health>, BackendError> {
        self.program.volume_health(call, id).await
    }

    async fn node_info(&self, call: &Call) -> Result<NodeDescription, BackendError> {
        self.program.node_info(call).await
    }

    async fn node_stage(&self, call: &Call, args: NodeStage) -> Result<Plan, BackendError> {
        self.program.node_stage(call, args).await
    }

    async fn node_publish(&self, call: &Call, args: NodePublish) -> Result<Plan, BackendError> {
        self.program.node_publish(call, args).await
    }

    async fn before_unstage(
        &self,
        call: &Call,
        id: VolumeId,
        notes: Attributes,
    ) -> Result<(), BackendError> {
        self.program.before_unstage(call, id, notes).await
    }
}

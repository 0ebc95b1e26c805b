//! plugins/hostpath as a native backend: each method is one call of its function, on the thread that serves the RPC.

use crate::answer::Parse;
use crate::bindings::types::Error;
use crate::convert::Convert;
use crate::storage::{Host, Storage};
use async_trait::async_trait;
use hostpath::Hostpath;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::block_in_place;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{
    Answer, Available, Backend, BackendError, ControllerExpand, ControllerPublish, CreateGroup,
    CreateSnapshot, CreateVolume, Expanded, GetCapacity, ListSnapshots, Load, NodeDescription,
    NodePublish, NodeStage, PluginLabel, ValidateVolume, Validation,
};
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::call::Call;
use wasmount_core::code::Code;
use wasmount_core::health::Health;
use wasmount_core::names::{GroupSnapshotId, InvalidField, NodeId, SnapshotId, VolumeId};
use wasmount_core::plan::Plan;
use wasmount_core::secrets::{SecretOptions, Secrets};
use wasmount_core::services::{Feature, Service, ServiceSet};
use wasmount_core::snapshot::{GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::volume::{Page, PageRequest, Volume, VolumeEntry};
use wasmount_guest::{
    Capacity, Controller, ControllerExpand as _, ControllerModify, ControllerPublish as _,
    GroupSnapshots, Identity, NodeInfo, NodePublish as _, NodeStage as _, SnapshotListing,
    SnapshotMetadata, Snapshots, VolumeHealth, VolumeListing, VolumeLookup, testing,
};

/// The only version there is.
pub(crate) struct NativeBackend {
    label: PluginLabel,
    offer: ServiceSet,
    manifest: Attributes,
    host: Arc<Host>,
}

impl NativeBackend {
    /// With the plugin's own description. It exports every service but the hooks and the registration of nodes.
    pub(crate) fn new(host: Host) -> Result<Self, InvalidField> {
        let info = Hostpath::get_plugin_info();
        let services = Service::ALL.iter().copied();
        let offered =
            services.filter(|it| !matches!(it, Service::NodeHooks | Service::NodeRegister));
        let features = info.features.iter();
        let features = features.filter_map(|name| Feature::parse(name));
        Ok(Self {
            offer: ServiceSet::new(offered, features),
            label: PluginLabel {
                name: info.name,
                version: info.version,
                digest: "native".to_owned(),
            },
            manifest: info.manifest.parse()?,
            host: Arc::new(host),
        })
    }

    /// Calls a function of the plugin. Its records are durable when this returns, whatever it answered.
    ///
    /// The runtime gives the other tasks of the thread to another one meanwhile. That wakes a thread, but the call itself waits for none, which it
    /// would with `spawn_blocking`.
    async fn call<G: Parse<T>, T>(
        &self,
        call: &Call,
        function: &'static str,
        plugin: impl FnOnce() -> Result<G, Error>,
    ) -> Answer<T> {
        let (answered, synced) = block_in_place(|| {
            let storage = Rc::new(Storage::of(&self.host, call));
            let answered = testing::with_storage(storage.clone(), || {
                testing::set_node_name(Some(&self.host.node_name));
                for (name, value) in self.host.settings.iter() {
                    testing::set_setting(name, value);
                }
                plugin()
            });
            (answered, storage.sync())
        });
        let value = answered.map_err(|Error { code, message }| BackendError::Answered {
            code: code.convert(),
            message,
        })?;
        synced.map_err(|error| BackendError::HostFailed {
            plugin: self.label.clone(),
            function,
            code: Code::Unavailable,
            reason: format!("what it wrote is not durable: {}; retry", error.message),
        })?;
        value.parse().map_err(|invalid| BackendError::BadAnswer {
            plugin: Box::new(self.label.clone()),
            function,
            reason: invalid.to_string(),
            blame: Blame::Of(Owner::Plugin),
        })
    }
}

#[async_trait]
impl Backend for NativeBackend {
    fn label(&self) -> &PluginLabel {
        &self.label
    }

    fn offer(&self) -> &ServiceSet {
        &self.offer
    }

    fn secret_options(&self, call: &Call, _: &VolumeId, plan: &Plan) -> Answer<SecretOptions> {
        Ok(plan.secret_options(&call.secrets, &Secrets::default()))
    }

    fn manifest(&self) -> &Attributes {
        &self.manifest
    }

    /// It has no places: nothing limits its calls.
    fn load(&self) -> Load {
        Load::default()
    }

    async fn probe(&self, call: &Call) -> Answer<bool> {
        self.call(call, "probe", Hostpath::probe).await
    }

    async fn create_volume(&self, call: &Call, args: CreateVolume) -> Answer<Volume> {
        let plugin = || Hostpath::create_volume(args.convert());
        self.call(call, "create-volume", plugin).await
    }

    async fn delete_volume(&self, call: &Call, id: VolumeId) -> Answer<()> {
        let plugin = || Hostpath::delete_volume(id.convert());
        self.call(call, "delete-volume", plugin).await
    }

    async fn validate_volume(&self, call: &Call, args: ValidateVolume) -> Answer<Validation> {
        let plugin = || Hostpath::validate_volume_capabilities(args.convert());
        self.call(call, "validate-volume-capabilities", plugin)
            .await
    }

    async fn controller_publish(&self, call: &Call, args: ControllerPublish) -> Answer<Attributes> {
        let plugin = || Hostpath::controller_publish_volume(args.convert());
        self.call(call, "controller-publish-volume", plugin).await
    }

    async fn controller_unpublish(
        &self,
        call: &Call,
        id: VolumeId,
        node: Option<NodeId>,
    ) -> Answer<()> {
        let plugin = || Hostpath::controller_unpublish_volume(id.convert(), node.convert());
        self.call(call, "controller-unpublish-volume", plugin).await
    }

    async fn controller_expand(&self, call: &Call, args: ControllerExpand) -> Answer<Expanded> {
        let plugin = || Hostpath::expand_volume(args.convert());
        self.call(call, "expand-volume", plugin).await
    }

    async fn modify_volume(&self, call: &Call, id: VolumeId, mutable: Attributes) -> Answer<()> {
        let plugin = || Hostpath::modify_volume(id.convert(), mutable.convert());
        self.call(call, "modify-volume", plugin).await
    }

    async fn list_volumes(&self, call: &Call, page: PageRequest) -> Answer<Page<VolumeEntry>> {
        let plugin = || Hostpath::list_volumes(page.convert());
        self.call(call, "list-volumes", plugin).await
    }

    async fn get_volume(&self, call: &Call, id: VolumeId) -> Answer<VolumeEntry> {
        let plugin = || Hostpath::get_volume(id.convert());
        self.call(call, "get-volume", plugin).await
    }

    async fn get_capacity(&self, call: &Call, args: GetCapacity) -> Answer<Available> {
        let plugin = || Hostpath::get_capacity(args.convert());
        self.call(call, "get-capacity", plugin).await
    }

    async fn create_snapshot(&self, call: &Call, args: CreateSnapshot) -> Answer<Snapshot> {
        let plugin = || Hostpath::create_snapshot(args.convert());
        self.call(call, "create-snapshot", plugin).await
    }

    async fn delete_snapshot(&self, call: &Call, id: SnapshotId) -> Answer<()> {
        let plugin = || Hostpath::delete_snapshot(id.convert());
        self.call(call, "delete-snapshot", plugin).await
    }

    async fn get_snapshot(&self, call: &Call, id: SnapshotId) -> Answer<Snapshot> {
        let plugin = || Hostpath::get_snapshot(id.convert());
        self.call(call, "get-snapshot", plugin).await
    }

    async fn list_snapshots(&self, call: &Call, args: ListSnapshots) -> Answer<Page<Snapshot>> {
        let plugin = || Hostpath::list_snapshots(args.convert());
        self.call(call, "list-snapshots", plugin).await
    }

    async fn create_group(&self, call: &Call, args: CreateGroup) -> Answer<GroupSnapshot> {
        let plugin = || Hostpath::create_group_snapshot(args.convert());
        self.call(call, "create-group-snapshot", plugin).await
    }

    async fn delete_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Answer<()> {
        let plugin = || Hostpath::delete_group_snapshot(id.into_string(), snapshots.convert());
        self.call(call, "delete-group-snapshot", plugin).await
    }

    async fn get_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Answer<GroupSnapshot> {
        let plugin = || Hostpath::get_group_snapshot(id.into_string(), snapshots.convert());
        self.call(call, "get-group-snapshot", plugin).await
    }

    async fn get_allocated(
        &self,
        call: &Call,
        id: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Answer<MetadataPage> {
        let plugin = || Hostpath::get_allocated(id.convert(), offset, max);
        self.call(call, "get-allocated", plugin).await
    }

    async fn get_delta(
        &self,
        call: &Call,
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Answer<MetadataPage> {
        let plugin = || Hostpath::get_delta(base.convert(), target.convert(), offset, max);
        self.call(call, "get-delta", plugin).await
    }

    async fn volume_health(&self, call: &Call, id: VolumeId) -> Answer<Vec<Health>> {
        let plugin = || Hostpath::get_volume_health(id.convert());
        self.call(call, "get-volume-health", plugin).await
    }

    async fn node_info(&self, call: &Call) -> Answer<NodeDescription> {
        self.call(call, "get-node-info", Hostpath::get_node_info)
            .await
    }

    async fn node_stage(&self, call: &Call, args: NodeStage) -> Answer<Plan> {
        let plugin = || testing::record(|plan| Hostpath::node_stage(args.convert(), plan));
        self.call(call, "node-stage", plugin).await
    }

    async fn node_publish(&self, call: &Call, args: NodePublish) -> Answer<Plan> {
        let plugin = || testing::record(|plan| Hostpath::node_publish(args.convert(), plan));
        self.call(call, "node-publish", plugin).await
    }

    async fn before_unstage(&self, _: &Call, _: VolumeId, _: Attributes) -> Answer<()> {
        not_offered(Service::NodeHooks)
    }

    async fn register_node(&self, _: &Call, _: NodeId) -> Answer<()> {
        not_offered(Service::NodeRegister)
    }

    async fn unregister_node(&self, _: &Call, _: NodeId) -> Answer<()> {
        not_offered(Service::NodeRegister)
    }
}

fn not_offered(service: Service) -> Answer<()> {
    let interface = service.interface();
    Err(BackendError::NotOffered { interface })
}

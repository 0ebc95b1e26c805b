//! A component as a storage backend: each method is one call of an export, and the check of its answer.

use crate::bindings::types;
use crate::convert::Convert;
use crate::fault::Callee;
use crate::function::*;
use crate::guest_call::call_guest;
use crate::program::Program;
use async_trait::async_trait;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{
    Available, Backend, BackendError, ControllerExpand, ControllerPublish, CreateGroup,
    CreateSnapshot, CreateVolume, Expanded, GetCapacity, ListSnapshots, Load, NodeDescription,
    NodePublish, NodeStage, PluginLabel, ValidateVolume, Validation,
};
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::call::Call;
use wasmount_core::code::Code;
use wasmount_core::health::Health;
use wasmount_core::migration::{Migration, StateChanges};
use wasmount_core::names::{GroupSnapshotId, NodeId, SnapshotId, VolumeId};
use wasmount_core::plan::Plan;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::SecretOptions;
use wasmount_core::services::ServiceSet;
use wasmount_core::snapshot::{GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::state::StateEntry;
use wasmount_core::volume::{Page, PageRequest, Volume, VolumeEntry};

type Result<T> = std::result::Result<T, BackendError>;

/// One admitted version of one backend. Each call runs in its own instance.
pub struct WasmBackend {
    pub(crate) program: Program,
    pub(crate) offer: ServiceSet,
    pub(crate) manifest: Attributes,
}

impl WasmBackend {
    /// Whether it exports the migration interface.
    pub fn has_migration(&self) -> bool {
        self.program.exports.state_migration.is_some()
    }

    /// How it changes the records of another version, given by the `version` of that one's plugin info. Unneeded without the export. Migration is no
    /// CSI service and not advertised; `versions` decides about pages, writes and swaps.
    pub async fn plan_migration(&self, call: &Call, from: &str) -> Result<Migration> {
        if !self.has_migration() {
            return Ok(Migration::Unneeded);
        }
        call_guest!(self, call, PLAN_MIGRATION => state_migration.call_plan_migration(from))?
            .check(|_, migration| Ok(migration.convert()))
    }

    /// Converts a page of another version's records; the result is checked, not written. As the contract promises, a page holds at most
    /// [`wasmount_core::migration::MIGRATION_PAGE_ENTRIES`] records of together [`wasmount_core::migration::MIGRATION_PAGE_BYTES`].
    pub async fn migrate(
        &self,
        call: &Call,
        from: &str,
        page: &[StateEntry],
    ) -> Result<StateChanges> {
        let page: Vec<_> = page.to_vec().convert();
        call_guest!(self, call, MIGRATE => state_migration.call_migrate_records(from, &page))?
            .check(|checker, changes| checker.state_changes(changes))
    }

    /// A sealed text came in a context, which is no fault of the plugin.
    fn not_opened(&self, rpc: Rpc) -> BackendError {
        let function = match rpc {
            Rpc::NodePublishVolume => NODE_PUBLISH,
            _ => NODE_STAGE,
        };
        let callee = Callee {
            program: &self.program,
            function,
        };
        let reason = "a sealed text of the volume's context cannot be opened: it is of another volume or driver, it was changed, or it was sealed with a \
                      secret that `grants.sealing` of this node's document does not name; restore that secret in `previousSecrets`, or the context";
        let blame = Blame::Of(Owner::Request);
        callee.refused(Code::FailedPrecondition, reason.to_owned(), blame)
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

    fn secret_options(&self, call: &Call, id: &VolumeId, plan: &Plan) -> Result<SecretOptions> {
        let parts = &self.program.parts;
        let mut options = plan.secret_options(&call.secrets, &parts.secrets);
        for (option, text) in plan.source.sealed_options() {
            let opened = parts.sealing.as_ref().and_then(|it| it.open(id, text));
            let value = opened.ok_or_else(|| self.not_opened(call.rpc))?;
            options.insert(option.clone(), value);
        }
        Ok(options)
    }

    fn manifest(&self) -> &Attributes {
        &self.manifest
    }

    fn load(&self) -> Load {
        self.program.gate.load()
    }

    async fn probe(&self, call: &Call) -> Result<bool> {
        call_guest!(self, call, PROBE => identity.call_probe())?.check(|_, ready| Ok(ready))
    }

    async fn create_volume(&self, call: &Call, args: CreateVolume) -> Result<Volume> {
        let (capacity, source) = (args.capacity, args.content_source.clone());
        call_guest!(self, call, CREATE_VOLUME => controller.call_create_volume(&args.convert()))?
            .check(|checker, volume| checker.created(volume, &capacity, &source))
    }

    async fn delete_volume(&self, call: &Call, id: VolumeId) -> Result<()> {
        call_guest!(self, call, DELETE_VOLUME => controller.call_delete_volume(&id.to_string()))?
            .check(|_, ()| Ok(()))
    }

    async fn validate_volume(&self, call: &Call, args: ValidateVolume) -> Result<Validation> {
        call_guest!(self, call, VALIDATE => controller.call_validate_volume_capabilities(&args.convert()))?
            .check(|checker, validation| Ok(checker.validation(validation)))
    }

    async fn controller_publish(&self, call: &Call, args: ControllerPublish) -> Result<Attributes> {
        call_guest!(self, call, PUBLISH =>
            controller_publish.call_controller_publish_volume(&args.convert()))?
        .check(|checker, context| checker.attributes("publish_context", context))
    }

    async fn controller_unpublish(
        &self,
        call: &Call,
        id: VolumeId,
        node: Option<NodeId>,
    ) -> Result<()> {
        let (id, node) = (id.into_string(), node.map(NodeId::into_string));
        call_guest!(self, call, UNPUBLISH =>
            controller_publish.call_controller_unpublish_volume(&id, node.as_ref()))?
        .check(|_, ()| Ok(()))
    }

    async fn controller_expand(&self, call: &Call, args: ControllerExpand) -> Result<Expanded> {
        let capacity = args.capacity;
        call_guest!(self, call, EXPAND => controller_expand.call_expand_volume(&args.convert()))?
            .check(|checker, expanded| checker.expanded(expanded, &capacity))
    }

    async fn modify_volume(&self, call: &Call, id: VolumeId, mutable: Attributes) -> Result<()> {
        let mutable: types::Attributes = mutable.convert();
        call_guest!(self, call, MODIFY =>
            controller_modify.call_modify_volume(&id.to_string(), &mutable))?
        .check(|_, ()| Ok(()))
    }

    async fn list_volumes(&self, call: &Call, page: PageRequest) -> Result<Page<VolumeEntry>> {
        let request = page.clone();
        call_guest!(self, call, LIST_VOLUMES => volume_listing.call_list_volumes(&request.convert()))?
            .check(|checker, answer| checker.volumes(answer, &page))
    }

    async fn get_volume(&self, call: &Call, id: VolumeId) -> Result<VolumeEntry> {
        call_guest!(self, call, GET_VOLUME => volume_lookup.call_get_volume(&id.to_string()))?
            .check(|checker, entry| checker.found_volume(entry, &id))
    }

    async fn get_capacity(&self, call: &Call, args: GetCapacity) -> Result<Available> {
        call_guest!(self, call, GET_CAPACITY => capacity.call_get_capacity(&args.convert()))?
            .check(|checker, available| checker.available(available))
    }

    async fn create_snapshot(&self, call: &Call, args: CreateSnapshot) -> Result<Snapshot> {
        let source = args.source_volume.clone();
        call_guest!(self, call, CREATE_SNAPSHOT => snapshots.call_create_snapshot(&args.convert()))?
            .check(|checker, snapshot| checker.snapshot_of(snapshot, &source))
    }

    async fn delete_snapshot(&self, call: &Call, id: SnapshotId) -> Result<()> {
        call_guest!(self, call, DELETE_SNAPSHOT => snapshots.call_delete_snapshot(&id.to_string()))?
            .check(|_, ()| Ok(()))
    }

    async fn get_snapshot(&self, call: &Call, id: SnapshotId) -> Result<Snapshot> {
        call_guest!(self, call, GET_SNAPSHOT => snapshots.call_get_snapshot(&id.to_string()))?
            .check(|checker, snapshot| checker.snapshot_with(snapshot, &id))
    }

    async fn list_snapshots(&self, call: &Call, args: ListSnapshots) -> Result<Page<Snapshot>> {
        let page = args.page.clone();
        call_guest!(self, call, LIST_SNAPSHOTS => snapshot_listing.call_list_snapshots(&args.convert()))?
            .check(|checker, answer| checker.snapshots(answer, &page))
    }

    async fn create_group(&self, call: &Call, args: CreateGroup) -> Result<GroupSnapshot> {
        let sources = args.source_volumes.clone();
        call_guest!(self, call, CREATE_GROUP => group_snapshots.call_create_group_snapshot(&args.convert()))?
            .check(|checker, group| checker.group_of(group, &sources))
    }

    async fn delete_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Result<()> {
        let members: Vec<String> = snapshots.convert();
        call_guest!(self, call, DELETE_GROUP =>
            group_snapshots.call_delete_group_snapshot(&id.to_string(), &members))?
        .check(|_, ()| Ok(()))
    }

    async fn get_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Result<GroupSnapshot> {
        let members: Vec<String> = snapshots.convert();
        call_guest!(self, call, GET_GROUP =>
            group_snapshots.call_get_group_snapshot(&id.to_string(), &members))?
        .check(|checker, group| checker.group_with(group, &id))
    }

    async fn get_allocated(
        &self,
        call: &Call,
        id: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage> {
        call_guest!(self, call, GET_ALLOCATED =>
            snapshot_metadata.call_get_allocated(&id.to_string(), offset, max))?
        .check(|checker, page| checker.metadata(page, offset, max))
    }

    async fn get_delta(
        &self,
        call: &Call,
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage> {
        let (base, target) = (base.into_string(), target.into_string());
        call_guest!(self, call, GET_DELTA =>
            snapshot_metadata.call_get_delta(&base, &target, offset, max))?
        .check(|checker, page| checker.metadata(page, offset, max))
    }

    async fn volume_health(&self, call: &Call, id: VolumeId) -> Result<Vec<Health>> {
        call_guest!(self, call, GET_HEALTH =>
            volume_health.call_get_volume_health(&id.to_string()))?
        .check(|checker, healths| checker.healths(healths))
    }

    async fn node_info(&self, call: &Call) -> Result<NodeDescription> {
        call_guest!(self, call, GET_NODE_INFO => node_info.call_get_node_info())?
            .check(|checker, node| checker.node(node))
    }

    async fn node_stage(&self, call: &Call, args: NodeStage) -> Result<Plan> {
        call_guest!(self, call, NODE_STAGE => node_stage.call_node_stage(&args.convert()))?.plan()
    }

    async fn node_publish(&self, call: &Call, args: NodePublish) -> Result<Plan> {
        call_guest!(self, call, NODE_PUBLISH => node_publish.call_node_publish(&args.convert()))?
            .plan()
    }

    async fn before_unstage(&self, call: &Call, id: VolumeId, notes: Attributes) -> Result<()> {
        let notes: types::Attributes = notes.convert();
        call_guest!(self, call, BEFORE_UNSTAGE =>
            node_hooks.call_before_unstage(&id.to_string(), &notes))?
        .check(|_, ()| Ok(()))
    }

    async fn register_node(&self, call: &Call, node: NodeId) -> Result<()> {
        call_guest!(self, call, REGISTER_NODE => node_register.call_register_node(&node.into_string()))?
            .check(|_, ()| Ok(()))
    }

    async fn unregister_node(&self, call: &Call, node: NodeId) -> Result<()> {
        call_guest!(self, call, UNREGISTER_NODE => node_register.call_unregister_node(&node.into_string()))?
            .check(|_, ()| Ok(()))
    }
}

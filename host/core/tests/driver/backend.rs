//! A backend in native code: it remembers volumes, returns scripted answers, and records its calls.

use crate::common::{snapshot_id, volume_id};
use crate::script::{Script, label};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Mutex;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{
    Available, Backend, BackendError, ControllerExpand, ControllerPublish, CreateGroup,
    CreateSnapshot, CreateVolume, Expanded, GetCapacity, ListSnapshots, Load, NodeDescription,
    NodePublish, NodeStage, PluginLabel, ValidateVolume, Validation,
};
use wasmount_core::call::Call;
use wasmount_core::code::Code;
use wasmount_core::health::Health;
use wasmount_core::names::{GroupSnapshotId, NodeId, SnapshotId, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::secrets::{SecretOptions, Secrets};
use wasmount_core::services::ServiceSet;
use wasmount_core::snapshot::{BlockType, GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::topology::TopologyRequirement;
use wasmount_core::volume::{Page, PageRequest, Volume, VolumeEntry, VolumeStatus};

type Result<T> = std::result::Result<T, BackendError>;

pub(crate) struct FakeBackend {
    pub(crate) script: Script,
    /// Entries of listings and look-ups.
    pub(crate) entries: Mutex<Vec<VolumeEntry>>,
    /// The answer to every snapshot call.
    pub(crate) snapshot: Mutex<Snapshot>,
    pub(crate) health: Mutex<Vec<Health>>,
    /// Scripted health of single volumes. One whose name begins with `hangs` never answers.
    pub(crate) health_of: Mutex<BTreeMap<&'static str, Result<Vec<Health>>>>,
    /// Most entries of a page, whatever the request.
    pub(crate) page_entries: Mutex<usize>,
    /// The token of every page, instead of one that advances.
    pub(crate) same_token: Mutex<Option<String>>,
    /// Number of empty pages of volumes that are returned first.
    pub(crate) empty_pages: Mutex<usize>,
    /// Members of every group, which always reports ready.
    pub(crate) members: Mutex<Vec<Snapshot>>,
    /// The requested topology of the last snapshot.
    pub(crate) asked_place: Mutex<Option<TopologyRequirement>>,
    pub(crate) node: Mutex<NodeDescription>,
    /// Each call changes something before it answers.
    pub(crate) changes: Mutex<bool>,
    /// Answers CreateVolume without its source.
    pub(crate) volumes: Mutex<BTreeMap<String, Volume>>,
    secrets: Secrets,
    label: PluginLabel,
    offer: ServiceSet,
    manifest: Attributes,
}

impl FakeBackend {
    pub(crate) fn new(offer: ServiceSet) -> Self {
        Self {
            script: Script::default(),
            entries: Mutex::default(),
            snapshot: Mutex::new(snapshot("snap", "v")),
            health: Mutex::default(),
            health_of: Mutex::default(),
            page_entries: Mutex::new(usize::MAX),
            same_token: Mutex::default(),
            empty_pages: Mutex::default(),
            members: Mutex::default(),
            asked_place: Mutex::default(),
            node: Mutex::default(),
            changes: Mutex::new(false),
            volumes: Mutex::default(),
            secrets: Secrets::default(),
            label: label(),
            offer,
            manifest: Attributes::default(),
        }
    }

    async fn at(&self, name: &'static str, about: &str, call: &Call) -> Result<()> {
        if *self.changes.lock().unwrap() {
            call.effect.set();
        }
        self.script.call(name, about, Some(call)).await
    }
}

pub(crate) fn volume(id: &str) -> Volume {
    Volume {
        id: volume_id(id),
        capacity_bytes: 1,
        context: Attributes::default(),
        content_source: None,
        accessible_topology: Vec::new(),
    }
}

pub(crate) fn entry(id: &str) -> VolumeEntry {
    VolumeEntry {
        volume: volume(id),
        status: VolumeStatus::default(),
    }
}

pub(crate) fn snapshot(id: &str, source: &str) -> Snapshot {
    Snapshot {
        id: snapshot_id(id),
        source_volume: volume_id(source),
        size_bytes: 1,
        created_at: 0,
        ready_to_use: true,
        group: None,
        accessible_topology: Vec::new(),
    }
}

pub(crate) fn plan() -> Plan {
    Plan {
        source: Source::Tmpfs { size_bytes: None },
        default_fs_type: None,
        mount_options: Vec::new(),
        notes: BTreeMap::new(),
        luks: None,
    }
}

fn group(id: GroupSnapshotId, snapshots: Vec<Snapshot>) -> GroupSnapshot {
    GroupSnapshot {
        id,
        snapshots,
        created_at: 0,
        ready_to_use: true,
    }
}

fn page() -> MetadataPage {
    MetadataPage {
        block_type: BlockType::FixedLength,
        volume_capacity_bytes: 1,
        extents: Vec::new(),
        next_offset: None,
    }
}

#[async_trait]
impl Backend for FakeBackend {
    fn label(&self) -> &PluginLabel {
        &self.label
    }
    fn offer(&self) -> &ServiceSet {
        &self.offer
    }
    fn secret_options(&self, call: &Call, _: &VolumeId, plan: &Plan) -> Result<SecretOptions> {
        Ok(plan.secret_options(&call.secrets, &self.secrets))
    }
    fn manifest(&self) -> &Attributes {
        &self.manifest
    }
    fn load(&self) -> Load {
        Load::default()
    }
    async fn probe(&self, call: &Call) -> Result<bool> {
        self.at("probe", "", call).await.map(|()| true)
    }
    async fn create_volume(&self, call: &Call, args: CreateVolume) -> Result<Volume> {
        let name = args.name.as_str();
        // Only the first creation is scripted: an existing volume is returned at once, for idempotence.
        if let Some(made) = self.volumes.lock().unwrap().get(name) {
            return Ok(made.clone());
        }
        self.at("create_volume", name, call).await?;
        let made = Volume {
            content_source: args.content_source,
            ..volume(&format!("id-of-{name}"))
        };
        let mut volumes = self.volumes.lock().unwrap();
        volumes.insert(name.to_owned(), made.clone());
        Ok(made)
    }
    async fn delete_volume(&self, call: &Call, id: VolumeId) -> Result<()> {
        self.at("delete_volume", id.as_str(), call).await
    }
    async fn validate_volume(&self, call: &Call, args: ValidateVolume) -> Result<Validation> {
        self.at("validate_volume", args.id.as_str(), call).await?;
        Ok(Validation::Confirmed)
    }
    async fn controller_publish(&self, call: &Call, args: ControllerPublish) -> Result<Attributes> {
        let about = format!("{} on {}", args.id, args.node);
        self.at("controller_publish", &about, call).await?;
        Ok(Attributes::default())
    }
    async fn controller_unpublish(
        &self,
        call: &Call,
        id: VolumeId,
        _: Option<NodeId>,
    ) -> Result<()> {
        self.at("controller_unpublish", id.as_str(), call).await
    }
    async fn controller_expand(&self, call: &Call, args: ControllerExpand) -> Result<Expanded> {
        self.at("controller_expand", args.id.as_str(), call).await?;
        Ok(Expanded {
            capacity_bytes: 2,
            node_expansion_required: true,
        })
    }
    async fn modify_volume(&self, call: &Call, id: VolumeId, _: Attributes) -> Result<()> {
        self.at("modify_volume", id.as_str(), call).await
    }
    /// Tokens are entry numbers.
    async fn list_volumes(&self, call: &Call, page: PageRequest) -> Result<Page<VolumeEntry>> {
        let asked = page.max_entries.unwrap();
        self.at("list_volumes", &asked.to_string(), call).await?;
        let first = page
            .starting_token
            .map_or(0, |token| token.parse().unwrap());
        let entries = self.entries.lock().unwrap();
        let rest = entries.get(first..).unwrap();
        let length = rest
            .len()
            .min(*self.page_entries.lock().unwrap())
            .min(asked as usize);
        let next = (length < rest.len()).then(|| (first + length).to_string());
        let same = self.same_token.lock().unwrap().clone();
        let mut empty = self.empty_pages.lock().unwrap();
        if *empty > 0 {
            *empty -= 1;
            return Ok(Page {
                entries: Vec::new(),
                // The same position in another spelling.
                next_token: Some(format!("{}{first}", "0".repeat(*empty + 1))),
            });
        }
        Ok(Page {
            entries: rest.get(..length).unwrap().to_vec(),
            next_token: same.or(next),
        })
    }
    async fn get_volume(&self, call: &Call, id: VolumeId) -> Result<VolumeEntry> {
        self.at("get_volume", id.as_str(), call).await?;
        let entries = self.entries.lock().unwrap();
        let found = entries.iter().find(|entry| entry.volume.id == id).cloned();
        found.ok_or_else(|| crate::script::answered(Code::NotFound))
    }
    async fn get_capacity(&self, call: &Call, _: GetCapacity) -> Result<Available> {
        self.at("get_capacity", "", call).await?;
        Ok(Available {
            available_bytes: 1,
            maximum_volume_bytes: None,
            minimum_volume_bytes: None,
        })
    }
    async fn create_snapshot(&self, call: &Call, args: CreateSnapshot) -> Result<Snapshot> {
        self.at("create_snapshot", args.name.as_str(), call).await?;
        *self.asked_place.lock().unwrap() = args.accessibility;
        Ok(self.snapshot.lock().unwrap().clone())
    }
    async fn delete_snapshot(&self, call: &Call, id: SnapshotId) -> Result<()> {
        self.at("delete_snapshot", id.as_str(), call).await
    }
    async fn get_snapshot(&self, call: &Call, id: SnapshotId) -> Result<Snapshot> {
        self.at("get_snapshot", id.as_str(), call).await?;
        Ok(self.snapshot.lock().unwrap().clone())
    }
    async fn list_snapshots(&self, call: &Call, _: ListSnapshots) -> Result<Page<Snapshot>> {
        self.at("list_snapshots", "", call).await?;
        Ok(Page {
            entries: vec![self.snapshot.lock().unwrap().clone()],
            next_token: None,
        })
    }
    async fn create_group(&self, call: &Call, args: CreateGroup) -> Result<GroupSnapshot> {
        self.at("create_group", args.name.as_str(), call).await?;
        Ok(group(
            GroupSnapshotId::parse("group_snapshot_id", "g").unwrap(),
            self.members.lock().unwrap().clone(),
        ))
    }
    async fn delete_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        _: Vec<SnapshotId>,
    ) -> Result<()> {
        self.at("delete_group", id.as_str(), call).await
    }
    async fn get_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        _: Vec<SnapshotId>,
    ) -> Result<GroupSnapshot> {
        self.at("get_group", id.as_str(), call).await?;
        Ok(group(id, self.members.lock().unwrap().clone()))
    }
    async fn get_allocated(
        &self,
        call: &Call,
        id: SnapshotId,
        _: u64,
        _: u32,
    ) -> Result<MetadataPage> {
        self.at("get_allocated", id.as_str(), call).await?;
        Ok(page())
    }
    async fn get_delta(
        &self,
        call: &Call,
        base: SnapshotId,
        _: SnapshotId,
        _: u64,
        _: u32,
    ) -> Result<MetadataPage> {
        self.at("get_delta", base.as_str(), call).await?;
        Ok(page())
    }
    async fn volume_health(&self, call: &Call, id: VolumeId) -> Result<Vec<Health>> {
        self.at("volume_health", id.as_str(), call).await?;
        if id.as_str().starts_with("hangs") {
            std::future::pending::<()>().await;
        }
        let own = self.health_of.lock().unwrap().get(id.as_str()).cloned();
        own.unwrap_or_else(|| Ok(self.health.lock().unwrap().clone()))
    }
    async fn node_info(&self, call: &Call) -> Result<NodeDescription> {
        self.at("node_info", "", call).await?;
        Ok(self.node.lock().unwrap().clone())
    }
    async fn node_stage(&self, call: &Call, args: NodeStage) -> Result<Plan> {
        self.at("node_stage", args.id.as_str(), call).await?;
        Ok(plan())
    }
    async fn node_publish(&self, call: &Call, args: NodePublish) -> Result<Plan> {
        self.at("node_publish", args.id.as_str(), call).await?;
        Ok(plan())
    }
    async fn before_unstage(&self, call: &Call, id: VolumeId, notes: Attributes) -> Result<()> {
        let note = notes.get("note").unwrap_or_default().to_owned();
        let about = format!("{id} {note}");
        self.at("before_unstage", &about, call).await
    }
    async fn register_node(&self, call: &Call, node: NodeId) -> Result<()> {
        self.at("register_node", node.as_str(), call).await
    }
    async fn unregister_node(&self, call: &Call, node: NodeId) -> Result<()> {
        self.at("unregister_node", node.as_str(), call).await
    }
}

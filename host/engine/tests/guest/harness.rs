//! Shared by the tests: one engine, one compiled form of each component, and a host in memory.

use crate::memory::Memory;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{Backend, BackendError, CreateVolume, NodeStage};
use wasmount_core::call::Call;
use wasmount_core::document::Limits;
use wasmount_core::mounter::Mounter;
use wasmount_core::names::{DriverName, RequestedName, VolumeId};
use wasmount_core::plan::Plan;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_core::state::StateStore;
use wasmount_core::volume::{
    AccessMode, AccessType, CapacityRange, MountAccess, Volume, VolumeCapability,
};
use wasmount_engine::{
    BackendParts, Engine, EngineOptions, LoadedComponent, NodeFacts, WasmBackend,
};
use wasmount_network::Endpoints;

/// Long enough for a slow machine; no test waits for it.
const BUDGET: Duration = Duration::from_secs(60);

/// A backend with its host in memory.
pub(crate) struct Fixture {
    pub(crate) backend: Arc<WasmBackend>,
    pub(crate) memory: Arc<Memory>,
    /// Secrets of each request.
    pub(crate) secrets: Secrets,
    pub(crate) cancelled: CancellationToken,
    pub(crate) budget: Duration,
}

impl Fixture {
    pub(crate) async fn misbehave() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::of(misbehave().await, limits, Secrets::default()).await
    }

    pub(crate) async fn of(component: &LoadedComponent, limits: Limits, secrets: Secrets) -> Self {
        let memory = Arc::new(Memory::default());
        let call = call(Rpc::GetPluginInfo, BUDGET);
        let parts = parts(&memory, limits, secrets);
        let candidate = component.prepare(parts, &call).await.unwrap();
        let info = candidate.plugin_info(&call).await.unwrap();
        Self::around(candidate.into_backend(info, []), memory)
    }

    /// A backend that was made by a test itself.
    pub(crate) fn around(backend: WasmBackend, memory: Arc<Memory>) -> Self {
        Self {
            backend: Arc::new(backend),
            memory,
            secrets: Secrets::default(),
            cancelled: CancellationToken::new(),
            budget: BUDGET,
        }
    }

    pub(crate) fn call(&self, rpc: Rpc) -> Call {
        Call {
            secrets: Arc::new(self.secrets.clone()),
            cancelled: self.cancelled.clone(),
            ..call(rpc, self.budget)
        }
    }

    /// Creates a volume, with the named behaviour.
    pub(crate) async fn create(&self, behaviour: &str) -> Result<Volume, BackendError> {
        self.create_within(self.budget, behaviour).await
    }

    /// The same with another budget.
    pub(crate) async fn create_within(
        &self,
        budget: Duration,
        behaviour: &str,
    ) -> Result<Volume, BackendError> {
        let call = Call {
            deadline: Instant::now() + budget,
            time: budget,
            ..self.call(Rpc::CreateVolume)
        };
        self.backend
            .create_volume(&call, create_volume(behaviour))
            .await
    }

    /// Stages a volume, with the named behaviour.
    pub(crate) async fn stage(&self, behaviour: &str) -> Result<Plan, BackendError> {
        let args = NodeStage {
            id: volume_id("volume-1"),
            capability: mounted(),
            publish_context: Attributes::default(),
            volume_context: attributes(&[("behaviour", behaviour)]),
        };
        self.backend
            .node_stage(&self.call(Rpc::NodeStageVolume), args)
            .await
    }
}

pub(crate) fn create_volume(behaviour: &str) -> CreateVolume {
    create_volume_with(attributes(&[("behaviour", behaviour)]))
}

pub(crate) fn create_volume_with(parameters: Attributes) -> CreateVolume {
    CreateVolume {
        name: RequestedName::parse("name", "volume-1").unwrap(),
        capacity: CapacityRange::new(Some(1 << 30), Some(2 << 30)).unwrap(),
        capabilities: vec![mounted()],
        parameters,
        mutable_parameters: Attributes::default(),
        content_source: None,
        accessibility: None,
    }
}

pub(crate) fn mounted() -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess::default()),
        access_mode: AccessMode::SingleNodeWriter,
    }
}

pub(crate) fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

pub(crate) fn volume_id(id: &str) -> VolumeId {
    VolumeId::parse("volume_id", id).unwrap()
}

pub(crate) fn secrets(pairs: &[(&str, &str)]) -> Secrets {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

pub(crate) fn parts(memory: &Arc<Memory>, limits: Limits, secrets: Secrets) -> BackendParts {
    BackendParts {
        driver: DriverName::parse("test.wasmount.io").unwrap(),
        limits,
        settings: Attributes::default(),
        secrets: Arc::new(secrets),
        held_secrets: BTreeSet::new(),
        sealing: None,
        network: Endpoints::default(),
        granted_facts: BTreeSet::new(),
        granted_of_nodes: BTreeSet::new(),
        node_facts: NodeFacts::given(BTreeMap::new()),
        node_name: Some("node-1".to_owned()),
        state: Arc::clone(memory) as Arc<dyn StateStore>,
        mounter: Arc::clone(memory) as Arc<dyn Mounter>,
    }
}

pub(crate) fn call(rpc: Rpc, budget: Duration) -> Call {
    Call::within(rpc, "request-1", budget)
}

/// One engine for all tests of this process.
pub(crate) fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let several = [&Limits::default(), &Limits::default(), &Limits::default()];
        Engine::new(EngineOptions::for_backends(None, several)).unwrap()
    })
}

pub(crate) async fn misbehave() -> &'static LoadedComponent {
    static COMPONENT: OnceCell<LoadedComponent> = OnceCell::const_new();
    COMPONENT.get_or_init(|| load("misbehave")).await
}

pub(crate) async fn directory() -> &'static LoadedComponent {
    static COMPONENT: OnceCell<LoadedComponent> = OnceCell::const_new();
    COMPONENT.get_or_init(|| load("directory")).await
}

pub(crate) async fn load(plugin: &str) -> LoadedComponent {
    engine().load(wasm(plugin)).await.unwrap()
}

/// The bytes of a plugin, as `cargo xtask plugins` built it.
pub(crate) fn wasm(plugin: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../plugins/target/wasm32-wasip2/release")
        .join(format!("{plugin}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}: run `cargo xtask plugins` first",
            path.display()
        )
    })
}

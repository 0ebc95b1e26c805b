//! One plugin outside a host: loaded, queried and called as in a host, with no driver served and nothing mounted. The commands that look inside a
//! plugin share it; their output is their own.
//!
//! ```text
//! document ─▶ set_up ─▶ admit ─▶ call one RPC ─▶ plans, records, use
//! ```
//!
//! All files are in a directory that is removed with the command. The engine, store and pools are real; only mounts are not.

mod dry_mounter;
mod needed_grants;
mod records;
mod source;
mod temporary_directory;

pub(crate) use dry_mounter::{Pools, Recorded, Verdict};
pub(crate) use records::{Change, Records, changes};
pub(crate) use temporary_directory::{TemporaryDirectory, sweep_temporary};

use super::compiler::ChildCompiler;
use super::signals::Signals;
use super::{MountPlaces, local_mounts, run_to_end, secrets};
use crate::config::Configured;
use crate::fault::Fault;
use dry_mounter::DryMounter;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wasmount_core::call::Call;
use wasmount_core::document::{PoolStorage, SecretSource, StorageBackend, Wasi};
use wasmount_core::driver::{Driver, DriverConfig, Profile, Role, ServingPolicy};
use wasmount_core::mutex::lock;
use wasmount_core::names::NodeId;
use wasmount_core::node_fact::NodeFact;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_core::services::Service;
use wasmount_csi::by_name::{NamedAnswer, NamedCall};
use wasmount_engine::{
    BackendParts, Engine, EngineOptions, LoadedComponent, NodeFacts, PluginInfo, Sealing,
    SealingKeyError, Usage,
};
use wasmount_network::{Conversation, Endpoints, Network, NetworkError, TapeError};
use wasmount_state::RedbStore;
use wasmount_versions::{AdmissionReport, Admitted, Proof, Refusal, run_admission};

/// The name of the node that the plugin sees.
const NODE: &str = "workbench";

/// The environment of a plugin.
pub(crate) struct Workbench {
    configured: Configured,
    engine: Arc<Engine>,
    state: Arc<RedbStore>,
    mounter: Arc<DryMounter>,
    secrets: Arc<Secrets>,
    sealing: Option<Sealing>,
    network: Endpoints,
    node_facts: NodeFacts,
    // The last field: the files in it are closed before it is removed.
    _place: TemporaryDirectory,
}

/// The identity of a plugin.
pub(crate) struct Identity {
    /// The services that it exports.
    pub(crate) services: Vec<Service>,
    /// Its answer about itself.
    pub(crate) info: PluginInfo,
}

/// One call and its results.
pub(crate) struct Called {
    /// The answer to the client.
    pub(crate) answer: NamedAnswer,
    /// Plans that a host would carry out.
    pub(crate) recorded: Vec<Recorded>,
    /// The plugin's records afterwards.
    pub(crate) records: Records,
    /// The resource use of each call into the guest.
    pub(crate) usages: Vec<Usage>,
    /// Time from the request to the answer.
    pub(crate) wall: Duration,
    /// Its requests to storage systems, if they were recorded or replayed.
    pub(crate) conversation: Result<Option<Conversed>, TapeError>,
}

/// A conversation, and why a replay is not what was recorded.
pub(crate) type Conversed = (Conversation, Option<TapeError>);

/// The storage systems of a call.
pub(crate) enum Storage {
    /// Those of the document.
    Granted,
    /// The same; what is said is recorded.
    Recorded,
    /// None: what was said is said again.
    Replayed(Conversation),
    /// None: no request is sent.
    Unused,
}

impl Workbench {
    /// For a plugin that is only asked for its name and features.
    pub(crate) async fn for_identity(
        configured: Configured,
        cache: Option<PathBuf>,
    ) -> Result<Self, Fault> {
        Self::set_up(configured, &Pools::Closed, cache, Storage::Unused).await
    }

    /// Creates the directory, reads the document's secrets, starts the engine. Compiled plugins are kept in `cache`, if it is given.
    pub(crate) async fn set_up(
        configured: Configured,
        pools: &Pools,
        cache: Option<PathBuf>,
        storage: Storage,
    ) -> Result<Self, Fault> {
        let place = TemporaryDirectory::make("workbench")?;
        let document = &configured.document;
        let mut sources = document.secrets.clone();
        // Values that only a storage system would get are at hand where it is.
        let held = document.grants.held_secrets();
        match storage {
            Storage::Granted | Storage::Recorded => {}
            Storage::Replayed(_) => {
                sources.retain(|name, source| !held.contains(name) || is_file(source));
            }
            Storage::Unused => sources.retain(|name, _| !held.contains(name)),
        }
        let secrets = secrets::read(sources, None).await;
        let secrets = secrets.map_err(Fault::failed("a secret cannot be read"))?;
        let secrets = Arc::new(secrets.with_identifiers(&document.grants.identifiers()));
        let sealing = sealing(document, &secrets, &storage);
        let sealing = sealing.map_err(Fault::failed("the grant of sealing is not usable"))?;
        let network = network(document, &secrets, storage);
        let network = network.map_err(Fault::failed("the network grants are not usable"))?;
        // In a directory of its own: the store locks its directory, and the place is locked as well.
        let state = RedbStore::open(&place.path().join("records"))
            .map_err(Fault::failed("a temporary store cannot be opened"))?;
        let compiled = cache.unwrap_or_else(|| place.path().join("compiled"));
        let engine = Engine::new(EngineOptions {
            compiler: Arc::new(ChildCompiler),
            ..EngineOptions::for_backends(Some(compiled), [&document.limits])
        })
        .map_err(Fault::failed("plugins cannot be run on this machine"))?;
        let mounter = dry_mounter(&configured, pools, place.path())?;
        Ok(Self {
            engine,
            state,
            mounter: Arc::new(mounter),
            secrets,
            sealing,
            network,
            node_facts: NodeFacts::given(BTreeMap::new()),
            configured,
            _place: place,
        })
    }

    /// The same with these facts of the node; this machine is not asked.
    pub(crate) fn with_node_facts(self, values: BTreeMap<NodeFact, Vec<String>>) -> Self {
        Self {
            node_facts: NodeFacts::given(values),
            ..self
        }
    }

    /// Compiles a component, whatever it imports.
    pub(crate) async fn load(&self, wasm: Vec<u8>) -> Result<LoadedComponent, Refusal> {
        Ok(self.engine.load(wasm).await?)
    }

    /// What a component reports about itself, linked with all of WASI; or why it cannot.
    pub(crate) async fn identity(&self, loaded: LoadedComponent) -> Result<Identity, String> {
        let time = self.configured.document.limits.time;
        let call = Call::within(Rpc::GetPluginInfo, "workbench", time);
        let loaded = loaded.with_wasi(Wasi::Full);
        let candidate = loaded.prepare(self.parts(), &call).await;
        let candidate = candidate.map_err(|error| error.to_string())?;
        let info = candidate.plugin_info(&call).await;
        Ok(Identity {
            services: candidate.services(),
            info: info.map_err(|error| error.to_string())?,
        })
    }

    /// All steps of admission except for pools: those are the cluster's, and none is opened here. Each step is recorded in the report.
    pub(crate) async fn admit(&self, report: &mut AdmissionReport) -> Result<Admitted, Refusal> {
        let Configured {
            document, folder, ..
        } = &self.configured;
        let wasm = source::component(&document.plugin, folder, report).await?;
        let proof = Proof {
            wasi: document.plugin.wasi,
            grants: &document.grants,
            parts: self.parts(),
            hidden: &document.hidden,
            kept: None,
            admitted_before: false,
        };
        run_admission(&self.engine, wasm, proof, report).await
    }

    /// The parts that a backend is given here.
    pub(crate) fn parts(&self) -> BackendParts {
        let document = &self.configured.document;
        BackendParts {
            driver: document.driver_name.clone(),
            limits: document.limits.clone(),
            settings: document.settings.clone(),
            secrets: Arc::clone(&self.secrets),
            held_secrets: document.grants.held_secrets(),
            sealing: self.sealing.clone(),
            network: self.network.clone(),
            granted_facts: document.grants.node_facts.clone(),
            granted_of_nodes: document.grants.nodes.clone(),
            node_facts: self.node_facts.clone(),
            node_name: Some(NODE.to_owned()),
            state: self.state.clone(),
            mounter: self.mounter.clone(),
        }
    }

    /// Makes one call on an admitted plugin, through the driver and the services that a socket would lead to. `before` are its records.
    pub(crate) async fn call(
        &self,
        admitted: Admitted,
        call: NamedCall,
        profile: Profile,
        before: &Records,
    ) -> Result<Called, Fault> {
        let document = &self.configured.document;
        let unusable = "the records cannot be brought into the store";
        let space = records::space(&document.driver_name);
        let filled = records::fill(&*self.state, &space, before).await;
        filled.map_err(Fault::failed(unusable))?;
        let node = NodeId::parse("node id", NODE).map_err(Fault::failed("the node has no name"))?;
        let config = DriverConfig {
            name: document.driver_name.clone(),
            role: Role::All,
            profile,
            node_id: node,
            policy: ServingPolicy::of(document),
        };
        let driver = Driver::new(config, self.mounter.clone(), self.state.clone());
        driver.activate(admitted.backend, ServingPolicy::of(document));
        // Calls of the admission do not count for this call.
        let usages: Arc<Mutex<Vec<Usage>>> = Arc::default();
        let observed = Arc::clone(&usages);
        self.engine
            .set_usage_observer(move |usage| lock(&observed).push(usage));
        let began = Instant::now();
        let answer = call.make(driver).await;
        let wall = began.elapsed();
        let usages = std::mem::take(&mut *lock(&usages));
        let records = records::all(&*self.state, &space).await;
        Ok(Called {
            answer,
            recorded: self.mounter.take_recorded(),
            records: records.map_err(Fault::failed("the records cannot be read"))?,
            usages,
            wall,
            conversation: self.network.conversation(),
        })
    }
}

fn is_file(source: &SecretSource) -> bool {
    matches!(source, SecretSource::File(path) if path.is_file())
}

/// A plugin that is only asked for its name seals nothing.
fn sealing(
    document: &StorageBackend,
    secrets: &Secrets,
    storage: &Storage,
) -> Result<Option<Sealing>, SealingKeyError> {
    let grant = document.grants.sealing.as_ref();
    let grant = grant.filter(|_| !matches!(storage, Storage::Unused));
    grant
        .map(|grant| Sealing::of(&document.driver_name, grant, secrets))
        .transpose()
}

fn network(
    document: &StorageBackend,
    secrets: &Arc<Secrets>,
    storage: Storage,
) -> Result<Endpoints, NetworkError> {
    let grants = &document.grants.network;
    let open = || Network::new(Vec::new()).open(&document.driver_name, grants, secrets);
    Ok(match storage {
        Storage::Granted => open()?,
        Storage::Recorded => open()?.recording(Arc::clone(secrets)),
        Storage::Replayed(conversation) => {
            Endpoints::replaying(grants, conversation, Arc::clone(secrets))
        }
        Storage::Unused => Endpoints::default(),
    })
}

fn dry_mounter(configured: &Configured, pools: &Pools, place: &Path) -> Result<DryMounter, Fault> {
    let mut configured = configured.clone();
    // Without a document nothing is granted or denied.
    let is_judged = !configured.file.as_os_str().is_empty();
    let below = match pools {
        Pools::Closed => {
            let grants = configured.document.grants;
            return Ok(DryMounter::new(grants, is_judged, None));
        }
        Pools::Granted => None,
        Pools::Temporary => Some(place.join("pools")),
        // A document's relative paths do not refer to the working directory of the command.
        Pools::Below(directory) => Some(std::path::absolute(directory).map_err(Fault::failed(
            format!("{} is no directory for pools", directory.display()),
        ))?),
    };
    if let Some(directory) = below {
        for (name, pool) in &mut configured.document.grants.pools {
            pool.storage = PoolStorage::Directory(directory.join(name));
        }
        super::private_directory(&directory).map_err(Fault::failed(format!(
            "the directory {} for pools cannot be made",
            directory.display()
        )))?;
    }
    let places = MountPlaces {
        run_dir: place.join("run"),
        path_roots: Vec::new(),
        node_root: None,
    };
    let one = std::slice::from_ref(&configured);
    let pools = local_mounts::open(place, places, place, one)?;
    let grants = configured.document.grants;
    Ok(DryMounter::new(grants, is_judged, Some(pools)))
}

/// Runs a command's work until it is done, or a signal arrives.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    run_to_end(async {
        let mut signals = Signals::watch()?;
        tokio::select! {
            done = work => done,
            signal = signals.next() => Err(Fault::failed("stopped")(format!("the signal {signal} was received"))),
        }
    })
}

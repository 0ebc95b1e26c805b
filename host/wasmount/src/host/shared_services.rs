//! The services that all drivers of a host share, opened in order: data directory, store, mounter, engine.

use super::compiler::ChildCompiler;
use super::controller::Shared;
use super::documents::Documents;
use super::kubernetes::Cluster;
use super::node_facts::{self, OwnNode};
use super::{COMPILED, HostOptions, MountsOptions, VERSIONS, blocking, local_mounts};
use crate::config::Configured;
use crate::fault::Fault;
use crate::metrics::CountedMounter;
use crate::readiness::Readiness;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use wasmount_core::document::Limits;
use wasmount_core::driver::Role;
use wasmount_core::mounter::Mounter;
use wasmount_core::nodes::Nodes;
use wasmount_core::state::StateStore;
use wasmount_engine::{Engine, EngineOptions, NodeFacts};
use wasmount_mount::LocalMounter;
use wasmount_mounter::SocketMounter;
use wasmount_network::Network;
use wasmount_state::{DataDirLock, LockError, RedbStore};

/// What every driver receives.
pub(super) struct SharedServices {
    /// Runs plugins.
    pub(super) engine: Arc<Engine>,
    /// Sends the requests of plugins.
    pub(super) network: Network,
    /// What is known of the node, and of others.
    pub(super) node_facts: NodeFacts,
    /// What this node tells controllers of this process.
    pub(super) own_node: Arc<OwnNode>,
    /// Where controllers of this process find all nodes; none: nowhere.
    pub(super) nodes: Option<Arc<dyn Nodes>>,
    /// Mounts and pools.
    pub(super) mounter: Arc<CountedMounter>,
    /// The mounter, if it is in this process.
    pub(super) local: Option<Arc<LocalMounter>>,
    /// The mounter, if it is another process.
    pub(super) remote: Option<Arc<SocketMounter>>,
    /// The state store. The one in the data directory holds its lock.
    pub(super) state: Arc<dyn StateStore>,
    /// The state store in the API server, if other hosts share the records.
    pub(super) shared: Option<Shared>,
    _lock: Option<DataDirLock>,
    /// When the previous host released the data directory; none: no host held it.
    pub(super) succeeded: Option<SystemTime>,
    /// That the records are lost, and what to do; none: they are not.
    pub(super) lost_records: Option<String>,
}

impl SharedServices {
    /// Waits for the data directory as long as necessary, then opens all services, for the documents as they are by then.
    pub(super) async fn open(
        options: &HostOptions,
        cluster: &Cluster,
        backends: Vec<Configured>,
        readiness: &Readiness,
    ) -> Result<(Self, Documents), Fault> {
        let shared = Shared::reach(options).await?;
        let own_node = Arc::new(OwnNode::new(options.kubernetes.node_name.clone()));
        let nodes = node_facts::nodes(options.role, &own_node, cluster);
        let (lock, succeeded) = data_directory(&options.data_dir, readiness).await?;
        let documents = blocking(move || Documents::read_again(&backends)).await?;
        let all = documents.all.iter();
        let limits: Vec<Limits> = all.map(|backend| backend.document.limits.clone()).collect();
        let engine = EngineOptions {
            compiler: Arc::new(ChildCompiler),
            ..EngineOptions::for_backends(Some(options.data_dir.join(COMPILED)), &limits)
        };
        let (options, backends) = (options.clone(), documents.all.clone());
        let services = blocking(move || {
            let (state, lock, lost_records): (Arc<dyn StateStore>, _, _) = match &shared {
                Some(shared) => (shared.store.clone(), Some(lock), None),
                None => {
                    let (store, lost) = local_records(lock, &options)?;
                    (store, None, lost)
                }
            };
            let (mounter, local, remote): (Arc<dyn Mounter>, _, Option<_>) = match options.mounts {
                MountsOptions::Here(places) => {
                    let (data_dir, sockets) = (&options.data_dir, &options.socket_dir);
                    let local = local_mounts::open(data_dir, places, sockets, &backends)?;
                    (local.clone(), Some(local), None)
                }
                MountsOptions::Elsewhere { socket } => {
                    let remote = Arc::new(SocketMounter::new(socket));
                    (remote.clone(), None, Some(remote))
                }
            };
            let network = Network::new(options.cluster_ranges);
            let node_facts = NodeFacts::of_node(network.clone());
            let node_facts = match &nodes {
                Some(nodes) => node_facts.with_nodes(nodes.clone()),
                None => node_facts,
            };
            Ok(Self {
                node_facts,
                own_node,
                nodes,
                network,
                state,
                succeeded,
                lost_records,
                shared,
                _lock: lock,
                mounter: Arc::new(CountedMounter::new(mounter, remote.is_some())),
                local,
                remote,
                engine: Engine::new(engine)
                    .map_err(Fault::failed("plugins cannot be run on this machine"))?,
            })
        });
        let services = services.await?;
        if let Some(reason) = &services.lost_records {
            tracing::error!("{reason}");
            readiness.set_lost_records(reason.clone());
        }
        Ok((services, documents))
    }
}

/// Opens the store of the data directory, and reports whether records are lost. A loss that an administrator accepted is not reported again, also at
/// later starts.
fn local_records(
    lock: DataDirLock,
    options: &HostOptions,
) -> Result<(Arc<RedbStore>, Option<String>), Fault> {
    let unusable = "the state store is not usable";
    let directory = lock.directory().to_owned();
    // Only the controller service has records.
    let is_expected = options.role != Role::Node && has_history(&directory);
    let store = RedbStore::open_locked(lock, is_expected).map_err(Fault::failed(unusable))?;
    let is_lost = match options.accepts_empty_state {
        true => store.accept_loss().map(|()| false),
        false => store.is_lost(),
    };
    let lost = is_lost.map_err(Fault::failed(unusable))?.then(|| {
        format!(
            "the state store in {} is gone, and an empty one is in its place: volumes and snapshots are neither created nor deleted; restore it from a copy, or start once with --accept-empty-state",
            directory.display()
        )
    });
    Ok((store, lost))
}

/// Whether drivers were served from a data directory. Their histories are written after the store was created.
fn has_history(directory: &Path) -> bool {
    let drivers = std::fs::read_dir(directory.join(VERSIONS));
    drivers.is_ok_and(|mut drivers| drivers.next().is_some())
}

/// The lock, and when another host released it; a second host reports that it waits, in its log and in its readiness.
async fn data_directory(
    directory: &Path,
    readiness: &Readiness,
) -> Result<(DataDirLock, Option<SystemTime>), Fault> {
    let mut succeeded = None;
    let lock = match lock(directory.to_owned(), false).await? {
        Err(LockError::Held { directory }) => {
            let waiting = format!(
                "waiting for the other host that uses the data directory {}",
                directory.display()
            );
            // First, so that a reader of the log line finds the host unready.
            readiness.set_host(Some(waiting.clone()));
            tracing::warn!("{waiting}");
            let lock = lock(directory, true).await?;
            succeeded = Some(SystemTime::now());
            lock
        }
        tried => tried,
    };
    let lock = lock.map_err(Fault::failed("the data directory is not usable"))?;
    Ok((lock, succeeded))
}

async fn lock(directory: PathBuf, wait: bool) -> Result<Result<DataDirLock, LockError>, Fault> {
    blocking(move || Ok(DataDirLock::acquire(&directory, wait))).await
}

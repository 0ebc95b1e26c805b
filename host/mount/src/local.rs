//! `Mounter` in this process: each request runs on a thread of its driver's budget. `wasmount mounter` serves the same interface on a socket.

use crate::connections::Connections;
use crate::durable::Durable;
use crate::exclusive::Claims;
use crate::failure::MountSetupError;
use crate::freeze::Freezer;
use crate::health;
use crate::in_use::DriverVolumes;
use crate::journal::Journal;
use crate::node::Node;
use crate::pool::Pools;
use crate::pool::mounted::MountedPools;
use crate::pool_places::{self, OverlappingPools, PoolPlaces};
use crate::process_usage::process_usage;
use crate::roots::{PathRoot, Roots};
use crate::stats;
use crate::stats_cache::StatsCache;
use crate::threads::{self, Budgets, Lane};
use crate::without_document::{self, Pending};
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::SystemTime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use wasmount_core::document::Grants;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::{
    ExpandVolume, MountError, Mounter, MounterRequest as Request, MounterResponse as Response,
    MounterStatus, VolumeKey,
};
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_core::pool::{PoolCall, PoolReply};

/// Of how many drivers what has no record is removed at a time: of more than a node has, since a client may name any driver.
const REMOVALS: usize = 64;

/// The administrator's configuration of this node.
#[derive(Debug, Clone)]
pub struct MounterConfig {
    /// Directories strictly below which clients may name paths. Links in the path of a root are followed.
    pub roots: Vec<PathRoot>,
    /// Directories of the host itself. No pool may lie in one or contain one. Roots, `run_dir` and `state_dir` are included.
    pub own: Vec<PathBuf>,
    /// The directory of the journal, preferably on a file system that ends with the mounts, such as `/run`.
    pub run_dir: PathBuf,
    /// The directory of notes and format intents, which must outlive a reboot. It is created if its parent exists.
    pub state_dir: PathBuf,
    /// The grants of each driver.
    pub grants: BTreeMap<DriverName, Grants>,
    /// Maximum number of blocking calls of one driver at a time.
    pub threads_per_driver: usize,
    /// The root directory of the node, if this process runs in a container. Programs that belong to the node, such as `iscsiadm`, run there, and facts of the node are read there.
    pub node_root: Option<PathBuf>,
}

/// The node's mounts, in this process.
pub struct LocalMounter {
    node: Arc<Node>,
    pools: Mutex<Served>,
    mounted: MountedPools,
    pub(crate) freezer: Arc<Freezer>,
    /// Of what has no record.
    removals: Arc<Semaphore>,
    pending: Arc<Pending>,
}

/// The pools of all drivers.
#[derive(Default)]
struct Served {
    granted: BTreeMap<DriverName, Arc<Pools>>,
    /// Grants that were withdrawn while their driver had volumes in use. They are kept so that another driver with the same directory does not remove
    /// what those volumes use.
    withdrawn: Vec<(DriverName, Arc<Pools>)>,
    places: PoolPlaces,
}

impl LocalMounter {
    /// Reads the journal. It mounts nothing and does not block; [`Mounter::unsettled`] returns what an earlier host left.
    pub fn new(config: MounterConfig) -> Result<Self, MountSetupError> {
        let mut roots = config.roots.iter().map(PathRoot::directory);
        if let Some(root) = roots.find(|root| !root.is_absolute()) {
            return Err(MountSetupError::RelativeRoot {
                root: root.to_owned(),
            });
        }
        let mut own = config.own;
        own.extend([config.run_dir.clone(), config.state_dir.clone()]);
        own.extend(config.roots.iter().map(|root| root.directory().to_owned()));
        let node = Arc::new(Node {
            roots: Roots::new(config.roots),
            journal: Journal::open(&config.run_dir)?,
            grants: RwLock::default(),
            durable: Durable::open(&config.state_dir)?,
            stats_cache: StatsCache::default(),
            budgets: Budgets::new(config.threads_per_driver),
            preparing: Claims::new(),
            node_root: config.node_root,
            connections: Connections::new(&config.state_dir),
        });
        let is_staged = |key: &VolumeKey| node.journal.entry(key).stage.is_some();
        node.durable.forget_intents(SystemTime::now(), is_staged);
        // The journal is locked, so no other host uses the run directory.
        let freezer = Arc::new(Freezer::open(&config.run_dir)?);
        let mounter = Self {
            mounted: MountedPools::new(&config.run_dir),
            pools: Mutex::new(Served {
                places: PoolPlaces::new(&own),
                ..Served::default()
            }),
            node,
            freezer,
            removals: Arc::new(Semaphore::new(REMOVALS)),
            pending: Arc::default(),
        };
        for (driver, grants) in config.grants {
            // An error in one driver's document must not affect other drivers.
            if let Err(error) = mounter.set_grants(&driver, Some(grants)) {
                tracing::error!(%driver, %error, "grants of a driver are not in effect");
            }
        }
        mounter.mounted.clear();
        Ok(mounter)
    }

    /// Replaces the grants of a driver. `None`: it has no grants, like a driver without a document. Staged volumes stay and are torn down as before;
    /// running calls end with the grants they started with. If pools overlap, nothing is changed.
    pub fn set_grants(
        &self,
        driver: &DriverName,
        grants: Option<Grants>,
    ) -> Result<(), OverlappingPools> {
        let places = grants
            .as_ref()
            .map(|grants| pool_places::places(driver, &grants.pools));
        let mut served = lock(&self.pools);
        served.places.set(driver, places.unwrap_or_default())?;
        if !self.node.grant(driver, grants.clone()) {
            return Ok(());
        }
        let has_volumes = |driver: &DriverName| !self.node.journal.of_driver(driver).is_empty();
        let is_over = |(driver, _): &mut (DriverName, _)| !has_volumes(driver);
        let ended: Vec<_> = served.withdrawn.extract_if(.., is_over).collect();
        let before = match &grants {
            Some(grants) => {
                let in_use = Arc::new(DriverVolumes::new(self.node.clone(), driver.clone()));
                let freezer = Arc::clone(&self.freezer);
                let pools = Pools::new(driver, &grants.pools, in_use, freezer, &self.mounted);
                served.granted.insert(driver.clone(), Arc::new(pools))
            }
            None => served.granted.remove(driver),
        };
        if let Some(before) = &before
            && has_volumes(driver)
        {
            served.withdrawn.push((driver.clone(), before.clone()));
        }
        drop(served);
        // Not under the lock: a pool whose server is dead takes a while.
        drop((ended, before));
        Ok(())
    }

    /// Recovers what an earlier process left of drivers that are not `documented`, in the background: nobody else does. It is called once, before the
    /// first request. Volumes that are staged or published stay.
    pub fn recover_without_document(&self, documented: &BTreeSet<DriverName>) -> JoinHandle<()> {
        without_document::recover(self.node.clone(), self.pending.clone(), documented)
    }

    /// Expands the image first, through the pool, so that its promised size stays correct.
    async fn expand_volume(&self, request: ExpandVolume) -> Result<u64, MountError> {
        let driver = request.key.driver.clone();
        let set_up = self.node.budgets.of(&driver).set_up;
        let (node, requested) = (self.node.clone(), request.clone());
        let growth = set_up.run(move || node.image_growth(&requested)).await?;
        if let Some(growth) = growth {
            self.call_pool(&driver, growth).await?;
        }
        let node = self.node.clone();
        set_up.run(move || node.expand(&request)).await
    }

    /// Removes maps and connections that no record names: in the background, and not beside teardowns, since neither these nor a start may wait for
    /// storage systems that are away. A map holds its disk, so maps are first.
    fn remove_unrecorded(&self, driver: &DriverName) {
        let Ok(permit) = self.removals.clone().try_acquire_owned() else {
            tracing::warn!(%driver, "too many drivers start at once: maps and connections without a record stay until the next start");
            return;
        };
        let lane = self.node.budgets.of(driver).set_up;
        let (node, driver) = (self.node.clone(), driver.clone());
        tokio::spawn(async move {
            let job = move || {
                let _permit = permit;
                node.close_stale_maps(&driver);
                node.end_unrecorded_connections(&driver);
                Ok(())
            };
            if let Err(error) = lane.run(job).await {
                tracing::warn!(%error, "maps and connections without a record stay until the next start");
            }
        });
    }

    async fn call_pool(
        &self,
        driver: &DriverName,
        call: PoolCall,
    ) -> Result<PoolReply, MountError> {
        let granted = lock(&self.pools).granted.get(driver).cloned();
        let pools = granted.ok_or_else(|| {
            MountError::not_granted(
                "pool",
                format!("driver {driver} has no backend document on this node"),
                Blame::Of(Owner::Administrator),
            )
        })?;
        pools.serve(&self.node.budgets.of(driver), call).await
    }
}

impl Drop for LocalMounter {
    /// A copy may still run, on a thread that ends with the process.
    fn drop(&mut self) {
        self.freezer.close();
    }
}

#[async_trait]
impl Mounter for LocalMounter {
    async fn perform(&self, request: Request) -> Result<Response, MountError> {
        self.pending.refuse(&request)?;
        let set_up = |key: &VolumeKey| self.node.budgets.of(&key.driver).set_up;
        // Also used for requests that precede a teardown or any set-up: they do not wait for storage.
        let tear_down = |driver: &DriverName| self.node.budgets.of(driver).tear_down;
        let (lane, job): (Lane, Job) = match request {
            Request::Stage(it) => (
                set_up(&it.key),
                Box::new(move |node| node.stage(&it).map(done)),
            ),
            Request::Publish(it) => (
                set_up(&it.key),
                Box::new(move |node| node.publish(&it).map(done)),
            ),
            Request::Unstage(it) => (
                tear_down(&it.key.driver),
                Box::new(move |node| node.unstage(&it).map(done)),
            ),
            Request::Unpublish(it) => (
                tear_down(&it.key.driver),
                Box::new(move |node| node.unpublish(&it).map(done)),
            ),
            Request::Recover(key) => (
                tear_down(&key.driver),
                Box::new(move |node| node.recover(&key).map(done)),
            ),
            // Without a record of a stage, memory answers.
            Request::Staged(it) if !self.node.has_stage(&it.key) => {
                return self.node.staged(&it).map(Response::Staged);
            }
            Request::Staged(it) => (
                tear_down(&it.key.driver),
                Box::new(move |node| node.staged(&it).map(Response::Staged)),
            ),
            Request::Notes(key) => (
                tear_down(&key.driver),
                Box::new(move |node| Ok(Response::Notes(node.notes(&key)))),
            ),
            Request::Unsettled(driver) => {
                self.remove_unrecorded(&driver);
                (
                    tear_down(&driver),
                    Box::new(move |node| node.unsettled(&driver).map(Response::Unsettled)),
                )
            }
            Request::VolumesInUse(driver) => (
                tear_down(&driver),
                Box::new(move |node| node.volumes_in_use(&driver).map(Response::VolumesInUse)),
            ),
            Request::ConfigDrive(driver) => (
                self.node.budgets.of(&driver).set_up,
                Box::new(move |node| node.config_drive(&driver).map(Response::Instance)),
            ),
            Request::NodeFact(driver, fact) => (
                self.node.budgets.of(&driver).set_up,
                Box::new(move |node| node.node_fact(&driver, fact).map(Response::FactValues)),
            ),
            Request::Status => {
                let node = self.node.clone();
                let status = threads::unbudgeted(move || {
                    let unshared_roots = node.unshared_roots()?;
                    let process = process_usage();
                    Ok(MounterStatus {
                        unshared_roots,
                        process,
                    })
                });
                return status.await.map(Response::Status);
            }
            Request::Stats(it) => return stats::stats(&self.node, it).await.map(Response::Stats),
            Request::Health(it) => {
                return health::health(&self.node, it).await.map(Response::Health);
            }
            Request::Expand(it) => return self.expand_volume(it).await.map(Response::Expanded),
            Request::Pool(driver, call) => {
                return self.call_pool(&driver, call).await.map(Response::Pool);
            }
        };
        let node = self.node.clone();
        lane.run(move || job(&node)).await
    }
}

/// The part of a blocking request that runs on a thread of its driver.
type Job = Box<dyn FnOnce(&Node) -> Result<Response, MountError> + Send>;

fn done((): ()) -> Response {
    Response::Done
}

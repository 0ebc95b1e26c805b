//! The mount room in this process: `Mounter`, with each call on a thread of its driver's budget.
//!
//! It is apart because it is the only face of the room; it decides nothing. `wasmount mounter` puts the same face behind a socket. It must
//! not know what a call does.

use crate::durable::Durable;
use crate::failure::MountSetupError;
use crate::freeze::Freezer;
use crate::health;
use crate::in_use::DriverVolumes;
use crate::journal::Journal;
use crate::node::Node;
use crate::pool::Pools;
use crate::pool_places::{self, OverlappingPools, PoolPlaces};
use crate::roots::{PathRoot, Roots};
use crate::stats::{self};
use crate::stats_cache::StatsCache;
use crate::threads::{self, Budgets, Threads};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use wasmount_core::document::Grants;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::health::Health;
use wasmount_core::mounter::{
    ExpandVolume, HealthQuery, MountError, Mounter, PublishVolume, StageVolume, Staged,
    StagedQuery, StatVolume, UnpublishVolume, UnstageVolume, VolumeInUse, VolumeKey, VolumeStats,
};
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::pool::{PoolCall, PoolReply};

/// What the administrator says about this node.
#[derive(Debug, Clone)]
pub struct MounterConfig {
    /// Directories strictly below which clients may name paths. Links on the way to a root are followed.
    pub roots: Vec<PathRoot>,
    /// Directories of the host's own, in which no pool may lie, nor around them. Roots, `run_dir` and `state_dir` are.
    pub own: Vec<PathBuf>,
    /// Where the journal is kept; best on a file system that dies with the mounts, such as `/run`.
    pub run_dir: PathBuf,
    /// Where notes and format intents are kept; must outlive a reboot. Made if its parent exists.
    pub state_dir: PathBuf,
    /// What each driver may use.
    pub grants: BTreeMap<DriverName, Grants>,
    /// How many blocking calls of one driver may run at a time.
    pub threads_per_driver: usize,
}

/// The node's mounts, in this process.
pub struct LocalMounter {
    node: Arc<Node>,
    pools: RwLock<Served>,
    pub(crate) freezer: Arc<Freezer>,
}

/// The pools of all drivers.
#[derive(Default)]
struct Served {
    granted: BTreeMap<DriverName, Arc<Pools>>,
    /// Grants that were taken back while their driver had volumes in use: held, so that another driver of the same directory removes none of
    /// what those use.
    withdrawn: Vec<(DriverName, Arc<Pools>)>,
    places: PoolPlaces,
}

impl LocalMounter {
    /// Reads the journal. Mounts nothing and waits for nothing; [`Mounter::unsettled`] tells what an earlier host left.
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
            preparing: Mutex::default(),
        });
        // The journal is locked: nobody else has what is in the run directory.
        let freezer = Arc::new(Freezer::open(&config.run_dir)?);
        let mounter = Self {
            pools: RwLock::new(Served {
                places: PoolPlaces::new(&own),
                ..Served::default()
            }),
            node,
            freezer,
        };
        for (driver, grants) in config.grants {
            // One driver's document is no other's trouble.
            if let Err(error) = mounter.set_grants(&driver, Some(grants)) {
                tracing::error!(%driver, %error, "grants of a driver are not in force");
            }
        }
        Ok(mounter)
    }

    /// From now on a driver is granted this; none: nothing, as a driver without a document. What is staged stays, and is torn down as ever;
    /// calls that run end with what they began with. Where pools overlap, nothing changes.
    pub fn set_grants(
        &self,
        driver: &DriverName,
        grants: Option<Grants>,
    ) -> Result<(), OverlappingPools> {
        let places = grants
            .as_ref()
            .map(|grants| pool_places::places(driver, &grants.pools));
        let mut served = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        match places {
            Some(places) => served.places.set(driver, places)?,
            None => served.places.remove(driver),
        }
        if !self.node.grant(driver, grants.clone()) {
            return Ok(());
        }
        let has_volumes = |driver: &DriverName| !self.node.journal.of_driver(driver).is_empty();
        served.withdrawn.retain(|(driver, _)| has_volumes(driver));
        let before = match &grants {
            Some(grants) => {
                let pools = Arc::new(pools(&self.node, &self.freezer, driver, grants));
                served.granted.insert(driver.clone(), pools)
            }
            None => served.granted.remove(driver),
        };
        if let Some(before) = before.filter(|_| has_volumes(driver)) {
            served.withdrawn.push((driver.clone(), before));
        }
        Ok(())
    }

    fn pools_of(&self, driver: &DriverName) -> Option<Arc<Pools>> {
        let served = self.pools.read().unwrap_or_else(PoisonError::into_inner);
        served.granted.get(driver).cloned()
    }

    fn threads(&self, driver: &DriverName) -> Threads {
        self.node.budgets.of(driver)
    }

    async fn set_up<T: Send + 'static>(
        &self,
        driver: &DriverName,
        job: impl FnOnce(&Node) -> Result<T, MountError> + Send + 'static,
    ) -> Result<T, MountError> {
        let node = self.node.clone();
        self.threads(driver).set_up(move || job(&node)).await
    }

    /// Also for what is asked before a tear-down, or before anything is set up: it waits for no storage.
    async fn tear_down<T: Send + 'static>(
        &self,
        driver: &DriverName,
        job: impl FnOnce(&Node) -> Result<T, MountError> + Send + 'static,
    ) -> Result<T, MountError> {
        let node = self.node.clone();
        self.threads(driver).tear_down(move || job(&node)).await
    }
}

impl Drop for LocalMounter {
    /// A copy may still run, on a thread that the end of the process ends.
    fn drop(&mut self) {
        self.freezer.close();
    }
}

#[async_trait]
impl Mounter for LocalMounter {
    async fn staged(&self, query: StagedQuery) -> Result<Staged, MountError> {
        let driver = query.key.driver.clone();
        self.tear_down(&driver, move |node| node.staged(&query))
            .await
    }

    async fn stage(&self, request: StageVolume) -> Result<(), MountError> {
        let driver = request.key.driver.clone();
        self.set_up(&driver, move |node| node.stage(&request)).await
    }

    async fn notes(&self, key: VolumeKey) -> Result<BTreeMap<String, String>, MountError> {
        let driver = key.driver.clone();
        self.tear_down(&driver, move |node| Ok(node.notes(&key)))
            .await
    }

    async fn unstage(&self, request: UnstageVolume) -> Result<(), MountError> {
        let driver = request.key.driver.clone();
        self.tear_down(&driver, move |node| node.unstage(&request))
            .await
    }

    async fn publish(&self, request: PublishVolume) -> Result<(), MountError> {
        let driver = request.key.driver.clone();
        self.set_up(&driver, move |node| node.publish(&request))
            .await
    }

    async fn unpublish(&self, request: UnpublishVolume) -> Result<(), MountError> {
        let driver = request.key.driver.clone();
        self.tear_down(&driver, move |node| node.unpublish(&request))
            .await
    }

    async fn stats(&self, request: StatVolume) -> Result<VolumeStats, MountError> {
        stats::stats(&self.node, request).await
    }

    async fn health(&self, query: HealthQuery) -> Result<Vec<Health>, MountError> {
        health::health(&self.node, query).await
    }

    async fn expand(&self, request: ExpandVolume) -> Result<u64, MountError> {
        let driver = request.key.driver.clone();
        let asked = request.clone();
        let growth = self
            .set_up(&driver, move |node| node.image_growth(&asked))
            .await?;
        if let Some(growth) = growth {
            // Through the pool, so that what it has promised stays true.
            self.pool(driver.clone(), growth).await?;
        }
        self.set_up(&driver, move |node| node.expand(&request))
            .await
    }

    async fn unsettled(&self, driver: DriverName) -> Result<Vec<VolumeId>, MountError> {
        let of = driver.clone();
        self.tear_down(&driver, move |node| node.unsettled(&of))
            .await
    }

    async fn volumes_in_use(&self, driver: DriverName) -> Result<Vec<VolumeInUse>, MountError> {
        let of = driver.clone();
        self.tear_down(&driver, move |node| node.volumes_in_use(&of))
            .await
    }

    async fn unshared_roots(&self) -> Result<Vec<String>, MountError> {
        let node = self.node.clone();
        threads::unbudgeted(move || node.unshared_roots()).await
    }

    async fn recover(&self, key: VolumeKey) -> Result<(), MountError> {
        let driver = key.driver.clone();
        self.tear_down(&driver, move |node| node.recover(&key))
            .await
    }

    async fn pool(&self, driver: DriverName, call: PoolCall) -> Result<PoolReply, MountError> {
        let Some(pools) = self.pools_of(&driver) else {
            return Err(MountError::NotGranted {
                step: "pool".to_owned(),
                reason: format!("driver {driver} has no backend document on this node"),
                blame: Blame::Of(Owner::Administrator),
            });
        };
        let threads = self.threads(&driver);
        pools.serve(&threads, call).await
    }
}

fn pools(node: &Arc<Node>, freezer: &Arc<Freezer>, driver: &DriverName, grants: &Grants) -> Pools {
    let in_use = DriverVolumes::new(node.clone(), driver.clone());
    Pools::new(&grants.pools, Arc::new(in_use), Arc::clone(freezer))
}

//! One CSI driver name: combines a backend, the node's mounts and the state store.
//!
//! One file for each CSI service, with the same name in `csi` and `engine`; `work` runs a call in its own task, `life` recovers and shuts down. This
//! module knows no wire format, no wasm and no system call.

mod calls;
mod controller;
mod faults;
mod health;
mod hooks;
mod life;
mod node;
mod node_info;
mod node_register;
mod paging;
mod plugin;
mod quiesce;
mod requests;
mod service;
mod serving_policy;
mod share;
mod snapshots;
mod swap;
mod usage;
mod work;

pub use crate::capabilities::{Hidden, Profile, Role};
pub use crate::claims::changes;
pub use calls::{RunningCall, RunningCalls};
pub use faults::RecentFault;
pub use health::{Storage, VolumesInUse};
pub use node_register::NodeReport;
pub use quiesce::{Leaving, QuiesceGuard};
pub use requests::{
    HealthPosition, ListSnapshotsRequest, ListVolumeHealthRequest, NodeExpandRequest,
    NodeHealthRequest, NodeInfo, NodePublishRequest, NodeStageRequest, NodeStats, NodeStatsRequest,
    PluginInfo, StorageHealth, VolumeHealth, VolumeHealthPage,
};
pub use service::LastService;
pub use serving_policy::{EPHEMERAL, PodInfo, SERVICE_ACCOUNT_TOKENS, ServingPolicy, VersionFault};
pub use usage::{Recoveries, RpcUsage};

use crate::attributes::Attributes;
use crate::call::Incoming;
use crate::capabilities::{Capabilities, advertised_as, needs_no_plugin};
use crate::claims::ClaimLock;
use crate::error::Error;
use crate::mounter::{Mounter, VolumeKey};
use crate::names::{DriverName, NodeId, VolumeId};
use crate::rpc::Rpc;
use crate::services::ServiceSet;
use crate::state::StateStore;
use arc_swap::ArcSwapOption;
use faults::Faults;
use health::HealthAnswers;
use hooks::Hooks;
use plugin::Plugin;
use quiesce::Holds;
use share::{About, Places, Share};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// `vendor_version` before a plugin was loaded: CSI requires one.
const NO_VERSION: &str = "unknown";

/// The configuration that stays the same for a driver's lifetime.
#[derive(Debug, Clone)]
pub struct DriverConfig {
    /// The driver's name.
    pub name: DriverName,
    /// Which services are served.
    pub role: Role,
    /// The version of CSI that is served.
    pub profile: Profile,
    /// The node's name in the host's configuration.
    pub node_id: NodeId,
    /// The document's policy, until a plugin is loaded with its own.
    pub policy: ServingPolicy,
}

/// One CSI driver.
pub struct Driver {
    config: DriverConfig,
    mounter: Arc<dyn Mounter>,
    state: Arc<dyn StateStore>,
    plugin: ArcSwapOption<Plugin>,
    /// A version that serves a share of the volumes; `plugin` serves everything else.
    share: ArcSwapOption<Share>,
    places: Places,
    /// The calls of replaced versions that still have some. The mutex also serialises swaps.
    retired: Mutex<Vec<RunningCalls>>,
    /// How often a version brought new capabilities.
    grown: watch::Sender<u64>,
    holds: Holds,
    /// Why new work is rejected.
    drained: ArcSwapOption<String>,
    /// Why nothing is created or deleted after the loss of the records.
    lost_records: OnceLock<String>,
    /// How many callers are about to remove the driver.
    leaving: AtomicUsize,
    fault: ArcSwapOption<String>,
    claims: ClaimLock,
    /// Tasks of mutating calls.
    tasks: TaskTracker,
    closing: AtomicBool,
    /// The condition under which this host serves, if its turn is limited.
    term: ArcSwapOption<Term>,
    /// Notifies of another term.
    terms: watch::Sender<()>,
    cancelled: CancellationToken,
    hooks: Hooks,
    health: HealthAnswers,
    /// The last answer of NodeGetInfo.
    node_info: watch::Sender<Option<NodeInfo>>,
    faults: Faults,
    counters: usage::Counters,
    offered: watch::Sender<Option<ServiceSet>>,
}

/// Whether this host may still serve.
type Term = Box<dyn Fn() -> bool + Send + Sync>;

impl Driver {
    /// A driver without a plugin: teardown works, calls that need a plugin fail as unavailable.
    pub fn new(
        config: DriverConfig,
        mounter: Arc<dyn Mounter>,
        state: Arc<dyn StateStore>,
    ) -> Arc<Self> {
        Arc::new(Self {
            config,
            mounter,
            state,
            plugin: ArcSwapOption::empty(),
            share: ArcSwapOption::empty(),
            places: Places::default(),
            retired: Mutex::default(),
            grown: watch::Sender::default(),
            holds: Holds::default(),
            drained: ArcSwapOption::empty(),
            lost_records: OnceLock::new(),
            leaving: AtomicUsize::new(0),
            fault: ArcSwapOption::empty(),
            claims: ClaimLock::default(),
            tasks: TaskTracker::new(),
            closing: AtomicBool::new(false),
            term: ArcSwapOption::empty(),
            terms: watch::Sender::default(),
            cancelled: CancellationToken::new(),
            hooks: Hooks::default(),
            health: HealthAnswers::default(),
            node_info: watch::Sender::default(),
            faults: Faults::default(),
            counters: usage::Counters::default(),
            offered: watch::Sender::new(None),
        })
    }

    /// Sets the reason for the missing plugin, for the messages of calls that need one.
    pub fn set_fault(&self, reason: String) {
        self.fault.store(Some(Arc::new(reason)));
    }

    /// The driver's name.
    pub fn name(&self) -> &DriverName {
        &self.config.name
    }

    /// Which services are served.
    pub fn role(&self) -> Role {
        self.config.role
    }

    /// The version of CSI that is served.
    pub fn profile(&self) -> Profile {
        self.config.profile
    }

    /// GetPluginInfo, from memory like all of the Identity service, so that it works while a plugin is missing or failing. The administrator sets the
    /// name, the plugin the rest.
    pub fn plugin_info(&self) -> PluginInfo {
        let plugin = self.plugin.load();
        let backend = plugin.as_ref().map(|plugin| &plugin.backend);
        PluginInfo {
            name: self.config.name.clone(),
            vendor_version: backend.map_or_else(
                || NO_VERSION.to_owned(),
                |backend| backend.label().version.clone(),
            ),
            manifest: backend
                .map_or_else(Attributes::default, |backend| backend.manifest().clone()),
        }
    }

    /// The capabilities that are advertised now. Ask [`Driver::serves`] first: sidecars read them once, so a driver whose plugin is not loaded yet
    /// should be unavailable instead of returning an empty list.
    pub fn capabilities(&self) -> Capabilities {
        match self.plugin.load().as_ref() {
            Some(plugin) => plugin.capabilities.clone(),
            None => Capabilities::without_plugin(self.config.role, &self.config.policy.hidden),
        }
    }

    /// Probe: ready once the host serves and the plugin's first load has ended, successfully or not. During that load, sidecars that start beside the
    /// host would ask for capabilities, get an error and exit; on "not ready" they wait. `/readyz/<driver>` reports a failing plugin: if Probe did,
    /// livenessprobe would restart the host and interrupt all other backends. A standby host is not ready either; it must not be restarted, so
    /// livenessprobe must not run beside it.
    pub async fn probe(self: &Arc<Self>, _incoming: Incoming) -> Result<bool, Error> {
        self.serves(Rpc::Probe)?;
        let loaded = self.plugin.load().is_some() || self.fault.load().is_some();
        Ok(loaded && self.works())
    }

    /// Whether a call is served now, and if not, the reason: role, document, missing plugin, missing interface.
    pub fn serves(&self, rpc: Rpc) -> Result<(), Error> {
        self.plugin_for(rpc, None).map(drop)
    }

    /// The plugin that serves a call; absent if none is loaded and the call does not need one.
    fn plugin_for(&self, rpc: Rpc, about: Option<About<'_>>) -> Result<Option<Arc<Plugin>>, Error> {
        let not_served = |reason| Err(Error::NotServed { rpc, reason });
        if !self.config.profile.has(rpc) {
            return not_served("it is a call of CSI 1.13 (--csi-profile)");
        }
        if !self.config.role.serves(rpc) {
            return not_served("this process does not run that service (--role)");
        }
        let plugin = self.plugin_of(about);
        let policy = plugin.as_ref().map(|plugin| &plugin.policy);
        let hidden = &policy.unwrap_or(&self.config.policy).hidden;
        if advertised_as(rpc).any(|name| hidden.hides(name)) {
            return not_served("its capability is hidden (csi.hideCapabilities)");
        }
        match plugin {
            // Teardown is the node's; a sidecar of the controller must not take an incomplete list for the driver's.
            None if needs_no_plugin(rpc) && self.config.role.includes(rpc.service()) => Ok(None),
            None => Err(self.no_plugin()),
            Some(plugin) if plugin.serves(rpc) => Ok(Some(plugin)),
            Some(_) => not_served("the backend does not offer it"),
        }
    }

    fn no_plugin(&self) -> Error {
        let reason = match self.fault.load_full() {
            Some(reason) => reason.as_ref().clone(),
            None => "it was not loaded yet".to_owned(),
        };
        Error::NoPlugin {
            driver: self.config.name.to_string(),
            reason,
        }
    }

    fn key(&self, volume: VolumeId) -> VolumeKey {
        VolumeKey {
            driver: self.config.name.clone(),
            volume,
        }
    }
}

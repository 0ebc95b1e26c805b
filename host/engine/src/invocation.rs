//! One call as the functions of the host see it: its backend, its rights, its recorded results. It is the data of the call's store and is dropped
//! with it.

use crate::effects::Effects;
use crate::function::{Access, Function};
use crate::guest_log::{GuestLog, Pipe, Stream};
use crate::host_error::HostError;
use crate::http::Sender;
use crate::limits::{MemoryLimiter, SharedMemory, within_cpu};
use crate::node_facts::NodeFacts;
use crate::recorder::Recorder;
use crate::redact::Redactor;
use crate::requests::Requests;
use crate::sealing::Sealing;
use crate::slices::Turn;
use crate::usage::CpuTime;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use wasmount_core::attributes::Attributes;
use wasmount_core::call::Call;
use wasmount_core::document::Limits;
use wasmount_core::mounter::Mounter;
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::NodeFact;
use wasmount_core::pool::Unsynced;
use wasmount_core::secrets::Secrets;
use wasmount_core::state::StateStore;
use wasmount_network::Endpoints;
use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// Random bytes that a guest may request at a time: key material, not a data set.
const RANDOM_BYTES: u64 = 64 << 10;

/// Ticks until a new call is interrupted first. Two: with one, every call that happens to cross a tick would sleep.
const FIRST_DEADLINE_TICKS: u64 = 2;

/// The data that the host gives a backend.
pub struct BackendParts {
    /// The driver that it serves; names its keys and its pools.
    pub driver: DriverName,
    /// Its limits.
    pub limits: Limits,
    /// `call.settings`.
    pub settings: Attributes,
    /// Secrets of the backend's document.
    pub secrets: Arc<Secrets>,
    /// Names of those secrets that it does not see: the host uses them for it.
    pub held_secrets: BTreeSet<String>,
    /// What seals its secrets and opens them; absent without a grant.
    pub sealing: Option<Sealing>,
    /// The storage systems that it may send requests to.
    pub network: Endpoints,
    /// The facts of the node that its node service may read.
    pub granted_facts: BTreeSet<NodeFact>,
    /// The facts of any node that its controller service may read.
    pub granted_of_nodes: BTreeSet<NodeFact>,
    /// What is known of the node, and of others.
    pub node_facts: NodeFacts,
    /// The node of this host; absent for a controller outside of the nodes.
    pub node_name: Option<String>,
    /// Its durable keys.
    pub state: Arc<dyn StateStore>,
    /// Its pools.
    pub mounter: Arc<dyn Mounter>,
}

/// The data of a call's store.
pub(crate) struct Invocation {
    wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    http: WasiHttpCtx,
    sender: Sender,
    pub(crate) requests: Requests,
    pub(crate) memory: MemoryLimiter,
    pub(crate) call: Call,
    pub(crate) parts: Arc<BackendParts>,
    pub(crate) redactor: Redactor,
    pub(crate) log: Arc<GuestLog>,
    pub(crate) recorder: Recorder,
    pub(crate) access: Access,
    pub(crate) effects: Effects,
    /// The last rejection of an argument.
    pub(crate) rejection: Option<HostError>,
    /// It waits for a pool or a session now: that time does not count as its own, as that of requests does not.
    pub(crate) waits_for_storage: bool,
    /// Set before a write starts: an interrupted write may have taken effect.
    pub(crate) unsynced: bool,
    /// Its changes in pools that are not on stable storage yet.
    pub(crate) unsynced_pools: Unsynced,
    /// Calls of the contract's functions so far.
    pub(crate) host_calls: u64,
}

impl Invocation {
    pub(crate) fn new(
        call: &Call,
        parts: &Arc<BackendParts>,
        log: Arc<GuestLog>,
        redactor: Redactor,
        function: Function,
        memory: &Arc<SharedMemory>,
    ) -> Self {
        let limits = &parts.limits;
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let mut wasi = WasiCtxBuilder::new();
        wasi.stdout(Pipe::new(Arc::clone(&log), Stream::Stdout))
            .stderr(Pipe::new(Arc::clone(&log), Stream::Stderr))
            .max_random_size(RANDOM_BYTES)
            // Directories, arguments and variables are absent unless they are added; sockets are present unless they are denied.
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false);
        let requests = Requests::default();
        let sender = Sender::new(call, function, &parts.network, limits, &requests, &redactor);
        Self {
            wasi: wasi.build(),
            table,
            http: WasiHttpCtx::new(),
            sender,
            memory: MemoryLimiter::new(limits, memory, function.share),
            recorder: Recorder::new(function.records, redactor.clone()),
            access: function.access,
            effects: Effects::of(call, requests.clone()),
            requests,
            call: call.clone(),
            parts: Arc::clone(parts),
            redactor,
            log,
            rejection: None,
            waits_for_storage: false,
            unsynced: false,
            unsynced_pools: Unsynced::default(),
            host_calls: 0,
        }
    }

    /// The linker's access to the data for a function of the contract: once for each call of one.
    pub(crate) fn counted(&mut self) -> &mut Self {
        self.host_calls = self.host_calls.saturating_add(1);
        self
    }

    /// Makes the guest's changes durable, those of pools first; free of cost without changes.
    pub(crate) async fn sync(&mut self) -> Result<(), HostError> {
        self.sync_pools().await?;
        if self.unsynced {
            let commit = self.parts.state.sync();
            commit.instrument(tracing::debug_span!("commit")).await?;
            self.unsynced = false;
        }
        Ok(())
    }
}

impl WasiView for Invocation {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for Invocation {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: &mut self.sender,
        }
    }
}

/// A store for one call, with the limits of its backend; `before`: CPU time of earlier calls of the same RPC. A guest that computes for long does so
/// in turns; waiting for one uses no CPU, and does not extend the wall time.
pub(crate) fn store(
    engine: &wasmtime::Engine,
    invocation: Invocation,
    turn: Turn,
    before: Duration,
    used: CpuTime,
) -> Store<Invocation> {
    let parts = Arc::clone(&invocation.parts);
    let mut store = Store::new(engine, invocation);
    store.limiter(|invocation| &mut invocation.memory);
    store.set_hostcall_fuel(parts.limits.host_call_bytes);
    store.set_max_component_handles(parts.limits.handles);
    store.set_epoch_deadline(FIRST_DEADLINE_TICKS);
    store.epoch_deadline_callback(move |_| {
        within_cpu(parts.limits.cpu, before + used.so_far())?;
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(turn.next())))
    });
    store
}

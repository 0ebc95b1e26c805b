//! The engine: one for each process, shared by all backends. It compiles bytes to a component, which [`crate::component`] processes further.

use crate::cache::Cache;
use crate::compile::{Compile, InProcess};
use crate::error::EngineError;
use crate::limits::memory_limit;
use crate::linker::Linkers;
use crate::load::{Loader, key_of_digest};
use crate::settings::{self, PoolSize, Target};
use crate::slices::Slices;
use crate::ticker::Ticker;
use crate::usage::{Usage, UsageWatch};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::document::Limits;
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;

/// Versions of one backend that may serve at a time: the draining one and the new one.
const VERSIONS: u32 = 2;
/// Instances in addition to those of calls: for admissions.
const SPARE_INSTANCES: u32 = 4;

/// Instances to reserve if the address space allows: backends are added, and documents change, while the host runs. A thousand reserve 4 TiB of the
/// 128 that a process has, and cost 3 ms at the start, 2,000 mappings, and no memory.
const ROOMY_INSTANCES: u32 = 1000;
/// Largest memory of a later backend: the address space of 32-bit WebAssembly, and a slot is that large anyway.
const ROOMY_MEMORY_BYTES: u64 = 4 << 30;
/// Largest table of a later backend: ten times the default.
const ROOMY_TABLE_ELEMENTS: usize = 1_000_000;

/// The options of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Directory of compiled components, owned by the host. Absent: each start compiles.
    pub cache_directory: Option<PathBuf>,
    /// The compiler.
    pub compiler: Arc<dyn Compile>,
    /// What the pool must have space for.
    pub least: PoolSize,
}

impl EngineOptions {
    /// Options for backends with these limits, also while each is swapped for a new version; this process compiles. Other backends may be added
    /// later: see [`Engine::new`].
    pub fn for_backends<'a>(
        cache_directory: Option<PathBuf>,
        limits: impl IntoIterator<Item = &'a Limits>,
    ) -> Self {
        let mut least = PoolSize {
            instances: SPARE_INSTANCES,
            memory_bytes: memory_limit(&Limits::default()),
            table_elements: Limits::default().table_elements,
        };
        for limits in limits {
            let calls = u32::try_from(limits.concurrency).unwrap_or(u32::MAX);
            let instances = calls.saturating_mul(VERSIONS);
            least.instances = least.instances.saturating_add(instances);
            least.memory_bytes = least.memory_bytes.max(memory_limit(limits));
            least.table_elements = least.table_elements.max(limits.table_elements);
        }
        Self {
            cache_directory,
            compiler: Arc::new(InProcess),
            least,
        }
    }

    /// The preferred size, so that no later document needs a restart.
    fn roomy(&self) -> PoolSize {
        let least = self.least;
        let memory_bytes = usize::try_from(ROOMY_MEMORY_BYTES).unwrap_or(usize::MAX);
        PoolSize {
            instances: least.instances.max(ROOMY_INSTANCES),
            memory_bytes: least.memory_bytes.max(memory_bytes),
            table_elements: least.table_elements.max(ROOMY_TABLE_ELEMENTS),
        }
    }
}

/// wasmtime and its configuration.
pub struct Engine {
    pub(crate) linkers: Linkers,
    /// The size of one slot of the pool; none: there is no pool, and each call allocates up to its backend's limit.
    pub(crate) slot: Option<PoolSize>,
    pub(crate) slices: Slices,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) usage: UsageWatch,
    pub(crate) loader: Arc<Loader>,
}

impl Engine {
    /// Starts the engine and its ticker, with space for far more than the options require if the address space allows. Without a usable cache
    /// directory it logs a warning and continues.
    pub fn new(options: EngineOptions) -> Result<Arc<Self>, EngineError> {
        let (wasmtime, slot) = settings::engine([options.roomy(), options.least])?;
        let engine = wasmtime.weak();
        let ticker = Ticker::start(move || {
            if let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
            }
        })?;
        let cache = options.cache_directory.as_ref().and_then(|directory| {
            Cache::open(directory, &wasmtime)
                .inspect_err(|error| {
                    tracing::warn!(directory = %directory.display(), %error, "no cache of compiled components: each start compiles");
                })
                .ok()
        });
        let target = slot.map_or(Target::Unpooled, |_| Target::Pooled);
        let loader = Loader::new(wasmtime.clone(), target, cache, options.compiler);
        Ok(Arc::new(Self {
            linkers: Linkers::new(&wasmtime)?,
            slot,
            slices: Slices::for_this_machine(),
            ticker: Arc::new(ticker),
            usage: UsageWatch::default(),
            loader: Arc::new(loader),
        }))
    }

    /// Calls `observer` with the usage of each call into a guest, on the call's own thread. Can be set once: false, without a change, if it was
    /// set before.
    pub fn set_usage_observer(&self, observer: impl Fn(Usage) + Send + Sync + 'static) -> bool {
        self.usage.set(Box::new(observer)).is_ok()
    }

    /// How often a component was compiled, successfully or not, and how long that took in all.
    pub fn compilations(&self) -> (u64, Duration) {
        *lock(&self.loader.compilations)
    }

    /// Sets the digests to which a backend may return without compiling. Earlier ones that no backend retains any more are removed from memory and
    /// from disk. A serving version is in use and not affected. No digests: the backend is gone.
    pub async fn retain_compiled(&self, owner: &DriverName, digests: &[String]) {
        let keys = digests.iter().filter_map(|digest| key_of_digest(digest));
        let unused = self.loader.residents.retain(owner, keys.collect());
        if !unused.is_empty() {
            self.loader.forget(unused).await;
        }
    }

    /// Removes compiled code of all other digests from disk: code of backends that were removed while the host was down, and code of another version
    /// of the host. For the start, before a component is loaded.
    pub async fn sweep_compiled(&self, claimed: &[String]) {
        let claimed = claimed.iter().filter_map(|digest| key_of_digest(digest));
        self.loader.retain(claimed.collect()).await;
    }
}

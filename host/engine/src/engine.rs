//! The engine: one per process, shared by all backends. It turns bytes into a component; what becomes of that is [`crate::component`]'s.

use crate::cache::Cache;
use crate::compile::{Compile, InProcess};
use crate::error::EngineError;
use crate::linker::Linkers;
use crate::load::{Loader, key_of_digest};
use crate::settings::{self, PoolSize, Target};
use crate::slices::Slices;
use crate::usage::{Usage, UsageWatch};
use std::path::PathBuf;
use std::sync::Arc;
use wasmount_core::document::Limits;
use wasmount_core::names::DriverName;

/// Versions of one backend that may serve at a time: the one that drains and the one that came.
const VERSIONS: u32 = 2;
/// Instances beyond those of calls: for admissions.
const SPARE_INSTANCES: u32 = 4;

/// Instances that there is room for, if the address space allows: backends come, and documents change, while the host runs. A thousand
/// reserve 4 TiB of the 128 that a process has, and cost 3 ms at the start, no memory, and 2,000 mappings, which make a fork 1.5 ms slower.
const ROOMY_INSTANCES: u32 = 1000;
/// Largest memory of a backend that may come: all that WebAssembly of 32 bits can address, and a slot is that large anyway.
const ROOMY_MEMORY_BYTES: u64 = 4 << 30;
/// Largest table of a backend that may come: ten times the default.
const ROOMY_TABLE_ELEMENTS: usize = 1_000_000;

/// What an engine is made for.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where compiled components are kept; the host's own directory. Absent: each start compiles.
    pub cache_directory: Option<PathBuf>,
    /// Who compiles.
    pub compiler: Arc<dyn Compile>,
    /// Instances at a time, of all backends together, that there must be room for.
    pub instances: u32,
    /// Largest `limits.memory` of a backend, in bytes.
    pub memory_bytes: u64,
    /// Largest `limits.tableElements` of a backend.
    pub table_elements: usize,
}

impl EngineOptions {
    /// Room for backends with these limits, also while each is swapped for a new version; this process compiles. Others may come later: see
    /// [`Engine::new`].
    pub fn for_backends<'a>(
        cache_directory: Option<PathBuf>,
        limits: impl IntoIterator<Item = &'a Limits>,
    ) -> Self {
        let mut options = Self {
            cache_directory,
            compiler: Arc::new(InProcess),
            instances: SPARE_INSTANCES,
            memory_bytes: Limits::default().memory_bytes,
            table_elements: Limits::default().table_elements,
        };
        for limits in limits {
            let calls = u32::try_from(limits.concurrency).unwrap_or(u32::MAX);
            let instances = calls.saturating_mul(VERSIONS);
            options.instances = options.instances.saturating_add(instances);
            options.memory_bytes = options.memory_bytes.max(limits.memory_bytes);
            options.table_elements = options.table_elements.max(limits.table_elements);
        }
        options
    }

    /// What must fit.
    fn least(&self) -> PoolSize {
        PoolSize {
            instances: self.instances,
            memory_bytes: usize::try_from(self.memory_bytes).unwrap_or(usize::MAX),
            table_elements: self.table_elements,
        }
    }

    /// What should fit, so that no document that comes later needs a restart.
    fn roomy(&self) -> PoolSize {
        let least = self.least();
        let memory_bytes = usize::try_from(ROOMY_MEMORY_BYTES).unwrap_or(usize::MAX);
        PoolSize {
            instances: least.instances.max(ROOMY_INSTANCES),
            memory_bytes: least.memory_bytes.max(memory_bytes),
            table_elements: least.table_elements.max(ROOMY_TABLE_ELEMENTS),
        }
    }
}

/// wasmtime, set up once.
pub struct Engine {
    pub(crate) linkers: Linkers,
    /// What fits into one slot of the pool; none: there is no pool, and each call takes what its backend may.
    pub(crate) slot: Option<PoolSize>,
    pub(crate) slices: Slices,
    pub(crate) usage: UsageWatch,
    pub(crate) loader: Arc<Loader>,
}

impl Engine {
    /// Starts the engine and its clock, with room for far more than the options ask for where the address space has it. Without a usable cache
    /// directory it warns and goes on.
    pub fn new(options: EngineOptions) -> Result<Arc<Self>, EngineError> {
        let (wasmtime, slot) = settings::engine([options.roomy(), options.least()])?;
        settings::start_ticker(&wasmtime)?;
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
            usage: UsageWatch::default(),
            loader: Arc::new(loader),
        }))
    }

    /// Calls `tell` with what each call into a guest used, on the call's own thread. Set once: false, and nothing changes, if it was set before.
    pub fn tell_usage(&self, tell: impl Fn(Usage) + Send + Sync + 'static) -> bool {
        self.usage.set(Box::new(tell)).is_ok()
    }

    /// Says which digests a backend wants to go back to without compiling; what it wanted before, and neither it nor another wants any more,
    /// goes from memory and from disk. What serves goes on: it is in use. No digests: the backend is gone.
    pub async fn retain_compiled(&self, owner: &DriverName, digests: &[String]) {
        let keys = digests.iter().filter_map(|digest| key_of_digest(digest));
        let unwanted = self.loader.residents.retain(owner, keys.collect());
        if !unwanted.is_empty() {
            self.loader.forget(unwanted).await;
        }
    }

    /// Removes from disk what is not compiled from one of these digests: what backends left that were removed while the host was down, and
    /// what another version of the host compiled. For the start, before anything is loaded.
    pub async fn sweep_compiled(&self, claimed: &[String]) {
        let claimed = claimed.iter().filter_map(|digest| key_of_digest(digest));
        self.loader.retain(claimed.collect()).await;
    }
}

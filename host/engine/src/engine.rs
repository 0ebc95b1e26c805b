//! The engine: one per process, shared by all backends. It turns bytes into a component; what becomes of that is [`crate::component`]'s.

use crate::cache::Cache;
use crate::component::LoadedComponent;
use crate::error::EngineError;
use crate::linker::Linkers;
use crate::load::load;
use crate::settings::{self, PoolSize};
use crate::slices::Slices;
use crate::ticker;
use std::path::PathBuf;
use std::sync::Arc;
use wasmount_core::document::Limits;

/// Versions of one backend that may serve at a time: the one that drains and the one that came.
const VERSIONS: u32 = 2;
/// Instances beyond those of calls: for admissions.
const SPARE_INSTANCES: u32 = 4;

/// What an engine is made for.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where compiled components are kept; the host's own directory. Absent: each start compiles.
    pub cache_directory: Option<PathBuf>,
    /// Instances at a time, of all backends together.
    pub instances: u32,
    /// Largest `limits.memory` of a backend, in bytes.
    pub memory_bytes: u64,
    /// Largest `limits.tableElements` of a backend.
    pub table_elements: usize,
}

impl EngineOptions {
    /// Room for backends with these limits, also while each is swapped for a new version.
    pub fn for_backends<'a>(
        cache_directory: Option<PathBuf>,
        limits: impl IntoIterator<Item = &'a Limits>,
    ) -> Self {
        let mut options = Self {
            cache_directory,
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
}

/// wasmtime, set up once.
pub struct Engine {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linkers: Linkers,
    pub(crate) options: EngineOptions,
    pub(crate) slices: Slices,
    cache: Option<Arc<Cache>>,
}

impl Engine {
    /// Starts the engine and its clock. Without a usable cache directory it warns and goes on.
    pub fn new(options: EngineOptions) -> Result<Arc<Self>, EngineError> {
        let wasmtime = settings::engine(PoolSize {
            instances: options.instances,
            memory_bytes: usize::try_from(options.memory_bytes).unwrap_or(usize::MAX),
            table_elements: options.table_elements,
        })?;
        ticker::start(&wasmtime)?;
        let cache = options.cache_directory.as_ref().and_then(|directory| {
            Cache::open(directory, &wasmtime)
                .inspect_err(|error| {
                    tracing::warn!(directory = %directory.display(), %error, "no cache of compiled components: each start compiles");
                })
                .ok()
        });
        Ok(Arc::new(Self {
            linkers: Linkers::new(&wasmtime)?,
            wasmtime,
            options,
            slices: Slices::for_this_machine(),
            cache: cache.map(Arc::new),
        }))
    }

    /// Compiles a component, or finds its compiled form. `wasm` is WebAssembly, never machine code.
    pub async fn load(self: &Arc<Self>, wasm: Vec<u8>) -> Result<LoadedComponent, EngineError> {
        let loaded = load(self.wasmtime.clone(), self.cache.clone(), wasm).await?;
        Ok(LoadedComponent::new(Arc::clone(self), loaded))
    }
}

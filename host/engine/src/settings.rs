//! The configuration of wasmtime.
//!
//! With it a fresh instance per call costs about 20 us in a release build, with wasmtime's defaults three times that.

use crate::error::EngineError;
use wasmount_core::named;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Wasm stack of one call, in bytes. wasmtime's own default; no measured guest comes close to it.
const WASM_STACK_BYTES: usize = 512 << 10;
/// Stack of the fiber that a call runs on, in bytes: the Wasm stack and the same size for the host functions that it calls.
const FIBER_STACK_BYTES: usize = 1 << 20;
/// Core instances of one component: Python needs 14, Rust 3.
const CORE_INSTANCES: u32 = 16;
/// Tables of one component.
const TABLES: u32 = 8;
/// Tables in the pool for each instance: Rust, C, Go and Python have at most two, the rest is for components with adapters.
const POOLED_TABLES: u32 = 4;
/// Linear memories of one component. Rust, C, Go and Python have one; JavaScript by componentize-qjs has another one of one page, in a component that
/// loads modules. Unused ones cost address space only.
const MEMORIES: u32 = 2;
/// Metadata of one instance, in bytes: ten times wasmtime's default, which large JavaScript guests exceed; untouched bytes cost nothing.
const INSTANCE_BYTES: usize = 10 << 20;
/// Memory that a pool slot keeps between calls, in bytes. With `pagemap_scan` a larger value helps Go only, without it a larger value is slower.
const MEMORY_KEPT_BYTES: usize = 64 << 10;
/// Table that a pool slot keeps between calls, in bytes.
const TABLE_KEPT_BYTES: usize = 16 << 10;
/// Address space before and after each memory if address space is scarce, in bytes: one page of Wasm. The compiled code then checks accesses.
const SHORT_GUARD_BYTES: u64 = 64 << 10;

named! {
    /// The engine for which code is compiled: wasmtime accepts only code that matches its settings.
    pub enum Target, name {
        /// Memories in slots of 4 GiB of address space, the usual case: the kernel enforces their bounds.
        Pooled = "pooled",
        /// Memories of their own size, if address space is scarce: the code checks each access.
        Unpooled = "unpooled",
    }
}

/// The required size of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Instances at a time, of all backends.
    pub instances: u32,
    /// Linear memory of one, in bytes.
    pub memory_bytes: usize,
    /// Elements of one table.
    pub table_elements: usize,
}

/// Creates an engine with a pool of the first of these sizes that the address space allows. Pooled slots reserve 4 GiB of address space each. If
/// there is space for none (`RLIMIT_AS`, a 39-bit machine), each call allocates its own memory instead, which is slower but otherwise the same, and
/// no size is returned.
pub(crate) fn engine(
    sizes: impl IntoIterator<Item = PoolSize>,
) -> Result<(Engine, Option<PoolSize>), EngineError> {
    for size in sizes {
        match Engine::new(&pooled(size)) {
            Ok(engine) => return Ok((engine, Some(size))),
            Err(error) => {
                tracing::debug!(error = format!("{error:#}"), ?size, "a pool does not fit");
            }
        }
    }
    tracing::warn!(
        "no address space for pooled instances: every call allocates its own, which is slower; raise RLIMIT_AS (ulimit -v)"
    );
    Ok((made(&unpooled())?, None))
}

/// Creates an engine that compiles for [`engine`]'s, and runs nothing: it reserves no address space, so that it fits into a confined child process.
/// The allocation of instances does not affect the code; the layout of memories does.
pub(crate) fn compiler(target: Target) -> Result<Engine, EngineError> {
    made(&match target {
        Target::Pooled => common(),
        Target::Unpooled => unpooled(),
    })
}

fn made(config: &Config) -> Result<Engine, EngineError> {
    Engine::new(config).map_err(|error| EngineError::Start(format!("{error:#}")))
}

fn pooled(size: PoolSize) -> Config {
    let instances = size.instances;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES))
        .total_memories(instances.saturating_mul(MEMORIES))
        .total_tables(instances.saturating_mul(POOLED_TABLES))
        .total_stacks(instances)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memory_size(size.memory_bytes)
        .table_elements(size.table_elements)
        .max_component_instance_size(INSTANCE_BYTES)
        .max_core_instance_size(INSTANCE_BYTES)
        .linear_memory_keep_resident(MEMORY_KEPT_BYTES)
        .table_keep_resident(TABLE_KEPT_BYTES)
        // Resets only the pages that a call dirtied; kernels before 6.7 lack it. The largest improvement that was measured.
        .pagemap_scan(Enabled::Auto);
    let mut config = common();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

fn unpooled() -> Config {
    let mut config = common();
    config
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        .memory_reservation(0)
        .memory_guard_size(SHORT_GUARD_BYTES);
    config
}

/// The common settings: only what the contract needs is compiled in or enabled.
fn common() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // The contract is synchronous: without concurrency support, calls are three times cheaper, and the code of Wasm's own concurrency is
        // unreachable.
        .concurrency_support(false)
        .gc_support(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_custom_page_sizes(false)
        .epoch_interruption(true)
        .memory_init_cow(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES);
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{DefaultHasher, Hash, Hasher};

    const SMALL: PoolSize = PoolSize {
        instances: 2,
        memory_bytes: 1 << 20,
        table_elements: 100,
    };

    /// A million slots of 4 GiB exceed the 47-bit address space of a process.
    const HUGE: PoolSize = PoolSize {
        instances: 1_000_000,
        ..SMALL
    };

    fn compatibility(engine: &Engine) -> u64 {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn the_first_pool_that_fits_into_the_address_space_is_used() {
        let (engine, size) = engine([HUGE, SMALL]).unwrap();
        assert!(engine.pooling_allocator_metrics().is_some());
        assert_eq!(size.unwrap().instances, SMALL.instances);
    }

    #[test]
    fn an_engine_without_enough_address_space_runs_without_a_pool() {
        let (engine, size) = engine([HUGE]).unwrap();
        assert!(engine.pooling_allocator_metrics().is_none() && size.is_none());
    }

    #[test]
    fn code_of_a_compiler_fits_its_engine_and_no_other() {
        let pooled = compatibility(&engine([SMALL]).unwrap().0);
        let unpooled = compatibility(&engine([]).unwrap().0);
        assert_eq!(compatibility(&compiler(Target::Pooled).unwrap()), pooled);
        assert_eq!(
            compatibility(&compiler(Target::Unpooled).unwrap()),
            unpooled
        );
        assert_ne!(pooled, unpooled);
    }

    #[test]
    fn a_target_is_parsed_from_its_name() {
        for target in Target::ALL {
            assert_eq!(Target::parse(target.name()), Some(*target));
        }
        assert_eq!(Target::parse("other"), None);
    }
}

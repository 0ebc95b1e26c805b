//! What one call may use of memory and CPU. Apart because wasmtime asks here while a guest runs.
//!
//! Over a limit the guest is stopped: an allocation that merely fails would come back as an obscure panic of the guest. Wall time and the
//! number of calls are not here: a guest that waits runs no code that could ask.

use crate::cpu::CpuTime;
use crate::invocation::Invocation;
use crate::slices::Turn;
use wasmount_core::document::Limits;
use wasmtime::{ResourceLimiter, Store, UpdateDeadline};

/// Instances of a store: one component with its core instances.
const STORE_INSTANCES: usize = 64;
/// Tables of a store, as many as the pool has for a component.
const STORE_TABLES: usize = 8;
/// Memories of a store, as many as the pool has for a component.
const STORE_MEMORIES: usize = 1;
/// Ticks until a new call is interrupted first. Two: with one, every call that happens to cross a tick would pay for a sleep.
const FIRST_DEADLINE_TICKS: u64 = 2;

/// A limit that a guest ran into, by its key in the backend document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("over {0}")]
pub(crate) struct OverLimit(pub(crate) String);

/// Counts the memory of one call.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    memory_bytes: usize,
    memory_limit: usize,
    table_elements: usize,
    table_limit: usize,
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes: 0,
            memory_limit: usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX),
            table_elements: 0,
            table_limit: limits.table_elements,
        }
    }

    /// Of all memories together.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.memory_bytes).unwrap_or(u64::MAX)
    }
}

impl ResourceLimiter for MemoryLimiter {
    /// The sum over all memories counts: two of half the size are no way around.
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let sum = sum_after(self.memory_bytes, current, desired);
        if sum > self.memory_limit {
            let limit = format!("limits.memory ({} bytes)", self.memory_limit);
            return Err(OverLimit(limit).into());
        }
        self.memory_bytes = sum;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let sum = sum_after(self.table_elements, current, desired);
        if sum > self.table_limit {
            let limit = format!("limits.tableElements ({})", self.table_limit);
            return Err(OverLimit(limit).into());
        }
        self.table_elements = sum;
        Ok(true)
    }

    fn instances(&self) -> usize {
        STORE_INSTANCES
    }

    fn tables(&self) -> usize {
        STORE_TABLES
    }

    fn memories(&self) -> usize {
        STORE_MEMORIES
    }
}

/// Puts the limits of a backend on the store of one call. Who goes on computing does so by turns; waiting for one is no use of CPU, and no
/// way around the wall time.
pub(crate) fn apply(store: &mut Store<Invocation>, limits: &Limits, turn: Turn, used: CpuTime) {
    store.limiter(|invocation| &mut invocation.memory);
    store.set_hostcall_fuel(limits.host_call_bytes);
    store.set_max_component_handles(limits.handles);
    store.set_epoch_deadline(FIRST_DEADLINE_TICKS);
    let most = limits.cpu;
    store.epoch_deadline_callback(move |_| {
        if used.so_far() > most {
            let seconds = most.as_secs_f32();
            return Err(OverLimit(format!("limits.cpu ({seconds} s)")).into());
        }
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(turn.next())))
    });
}

fn sum_after(sum: usize, current: usize, desired: usize) -> usize {
    sum.saturating_add(desired.saturating_sub(current))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> MemoryLimiter {
        MemoryLimiter::new(&Limits {
            memory_bytes: 100,
            table_elements: 10,
            ..Limits::default()
        })
    }

    #[test]
    fn growth_up_to_the_limit_is_allowed() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert!(limiter.table_growing(0, 10, None).unwrap());
    }

    #[test]
    fn growth_beyond_the_limit_is_refused_in_the_sum_of_all_memories() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        let error = limiter.memory_growing(0, 41, None).unwrap_err();
        assert_eq!(
            error.downcast_ref::<OverLimit>(),
            Some(&OverLimit("limits.memory (100 bytes)".to_owned()))
        );
        let error = limiter.table_growing(0, 11, None).unwrap_err();
        assert_eq!(
            error.downcast_ref::<OverLimit>(),
            Some(&OverLimit("limits.tableElements (10)".to_owned()))
        );
    }
}

//! The memory and CPU limits of a call.
//!
//! A guest above a limit is stopped: a failed allocation would show up as an obscure panic of the guest. Wall time and the number of calls are
//! enforced elsewhere: a waiting guest runs no code that could check them.

use crate::gate::{RESERVED_ONE_IN, Share};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wasmount_core::document::Limits;
use wasmtime::ResourceLimiter;

/// Calls of one backend that may use all of `limits.memory` at a time. Of the Rust, C and Go guests that were measured, which need under 20 MiB, 25
/// fit concurrently by default; 32 that used the maximum made the host use 1.2 GiB.
const WHOLE_SHARES: usize = 8;
/// Instances of a store: one component with its core instances.
const STORE_INSTANCES: usize = 64;
/// Tables of a store, as many as the pool has for a component.
const STORE_TABLES: usize = 8;
/// Memories of a store, as many as the pool has for a component.
const STORE_MEMORIES: usize = 2;

/// An exceeded limit, by its key in the backend document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("over {0}")]
pub(crate) struct OverLimit(pub(crate) String);

/// The calls of the backend use all of their shared memory: the client retries.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the calls of the backend take {most} bytes together, which is their limit")]
pub(crate) struct NoMemoryLeft {
    pub(crate) most: usize,
}

/// The memory of all calls of one backend.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    most: usize,
    taken: AtomicUsize,
}

/// Counts the memory of one call.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    shared: Arc<SharedMemory>,
    share: Share,
    memory_bytes: usize,
    memory_limit: usize,
    table_elements: usize,
    table_limit: usize,
}

impl SharedMemory {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            most: memory_limit(limits).saturating_mul(WHOLE_SHARES),
            taken: AtomicUsize::new(0),
        }
    }

    fn take(&self, bytes: usize, share: Share) -> Result<(), NoMemoryLeft> {
        let most = match share {
            Share::Ordinary => self.most - self.most / RESERVED_ONE_IN,
            Share::Reserved => self.most,
        };
        let more = |taken: usize| {
            let sum = taken.checked_add(bytes)?;
            (sum <= most).then_some(sum)
        };
        let order = Ordering::Relaxed;
        let taken = self.taken.fetch_update(order, order, more);
        taken.map(drop).map_err(|_| NoMemoryLeft { most })
    }
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &Limits, shared: &Arc<SharedMemory>, share: Share) -> Self {
        Self {
            shared: Arc::clone(shared),
            share,
            memory_bytes: 0,
            memory_limit: memory_limit(limits),
            table_elements: 0,
            table_limit: limits.table_elements,
        }
    }

    /// The sum of all memories.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.memory_bytes).unwrap_or(u64::MAX)
    }
}

/// Releases the call's memory: its store is dropped as a whole.
impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.shared
            .taken
            .fetch_sub(self.memory_bytes, Ordering::Relaxed);
    }
}

impl ResourceLimiter for MemoryLimiter {
    /// The sum over all memories counts: two of half the size do not bypass the limit.
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
        self.shared.take(sum - self.memory_bytes, self.share)?;
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

/// Checks the CPU time against its limit.
pub(crate) fn within_cpu(most: Duration, used: Duration) -> Result<(), OverLimit> {
    if used > most {
        return Err(OverLimit(format!("limits.cpu ({} s)", most.as_secs_f32())));
    }
    Ok(())
}

/// `limits.memory` in this machine's width.
pub(crate) fn memory_limit(limits: &Limits) -> usize {
    usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX)
}

fn sum_after(sum: usize, current: usize, desired: usize) -> usize {
    sum.saturating_add(desired.saturating_sub(current))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            memory_bytes: 100,
            table_elements: 10,
            ..Limits::default()
        }
    }

    fn limiter() -> MemoryLimiter {
        let limits = limits();
        let shared = Arc::new(SharedMemory::new(&limits));
        MemoryLimiter::new(&limits, &shared, Share::Ordinary)
    }

    #[test]
    fn calls_together_take_eight_shares_and_give_them_back() {
        let limits = limits();
        let shared = Arc::new(SharedMemory::new(&limits));
        let grown = |share, to| {
            let mut call = MemoryLimiter::new(&limits, &shared, share);
            call.memory_growing(0, to, None).map(|_| call)
        };
        let grow = |share| grown(share, 100);
        let mut calls: Vec<_> = (0..6).map(|_| grow(Share::Ordinary).unwrap()).collect();
        let error = grow(Share::Ordinary).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&NoMemoryLeft { most: 600 }));
        // Teardown calls have memory in addition to creations.
        calls.extend((0..2).map(|_| grow(Share::Reserved).unwrap()));
        let error = grow(Share::Reserved).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&NoMemoryLeft { most: 800 }));
        // Above its own limit the call is at fault, whatever memory is free.
        let error = grown(Share::Reserved, 101).unwrap_err();
        assert!(error.is::<OverLimit>(), "{error}");
        calls.pop();
        drop(grow(Share::Reserved).unwrap());
        calls.clear();
        assert_eq!(shared.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn growth_up_to_the_limit_is_allowed() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert!(limiter.table_growing(0, 10, None).unwrap());
    }

    #[test]
    fn memory_growth_is_limited_in_the_sum_of_all_memories() {
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

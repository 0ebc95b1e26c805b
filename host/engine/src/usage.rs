//! The usage of one call into a guest.
//!
//! Its CPU time is that of the thread (clock_gettime(2), `CLOCK_THREAD_CPUTIME_ID`), read at the start and the end of a poll: a guest that waits, or
//! is preempted by others, uses none.

use rustix::time::{ClockId, clock_gettime};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use wasmount_core::mutex::lock;

/// The usage of one call into a guest, however it ended. One RPC of CSI may make several of these, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The interface of the contract, such as `controller`.
    pub interface: &'static str,
    /// Its function, such as `create-volume`.
    pub function: &'static str,
    /// From its place at the gate to its last durable write.
    pub wall: Duration,
    /// The part of it that was computing.
    pub cpu: Duration,
    /// Linear memory at the end, which is also its maximum: it never shrinks.
    pub memory_bytes: u64,
    /// Calls of the contract's own functions, without those of WASI.
    pub host_calls: u64,
}

/// Receives the usage of each call of an engine; empty unless a command inspects a plugin.
pub(crate) type UsageWatch = OnceLock<Box<dyn Fn(Usage) + Send + Sync>>;

/// Counts the CPU time of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuTime(Arc<Mutex<Spent>>);

#[derive(Debug, Default)]
struct Spent {
    before: Duration,
    /// The thread's clock at the start of the current poll.
    since: Option<Duration>,
}

impl CpuTime {
    /// Counts the CPU time of a future.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            lock(&self.0).since = Some(of_this_thread());
            let polled = work.as_mut().poll(context);
            let so_far = self.so_far();
            *lock(&self.0) = Spent {
                before: so_far,
                since: None,
            };
            polled
        })
        .await
    }

    /// To be called on the polling thread.
    pub(crate) fn so_far(&self) -> Duration {
        let spent = lock(&self.0);
        let now = spent
            .since
            .map(|since| of_this_thread().saturating_sub(since));
        spent.before + now.unwrap_or_default()
    }
}

fn of_this_thread() -> Duration {
    // Never negative, so this never fails.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const WHILE: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn computing_counts() {
        let used = CpuTime::default();
        let compute = async {
            let until = of_this_thread() + WHILE;
            while of_this_thread() < until {}
            assert!(used.so_far() >= WHILE, "asked meanwhile");
            sleep(Duration::from_millis(1)).await;
        };
        used.during(compute).await;
        assert!(used.so_far() >= WHILE);
    }

    #[tokio::test]
    async fn waiting_does_not_count() {
        let used = CpuTime::default();
        used.during(sleep(WHILE)).await;
        assert!(used.so_far() < WHILE, "{:?}", used.so_far());
    }
}

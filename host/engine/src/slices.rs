//! Turns of guests that compute for long.
//!
//! Only half of the cores ever run such guests, so that a thread stays free for other work, however many there are. A turn is held only while the
//! guest runs: a guest that waits for the host, for its next turn or for nothing at all must not block others.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmount_core::mutex::lock;

/// How long no guest runs before each turn. Without it, on a single core, no thread ever parks, and then timers and sockets are polled only every 61
/// polls (tokio's `event_interval`).
const BREATHER: Duration = Duration::from_millis(1);

/// The turns of one engine.
#[derive(Debug, Clone)]
pub(crate) struct Slices(Arc<Semaphore>);

/// The turns of one call.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    slices: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Held while the guest runs.
    permit: Option<OwnedSemaphorePermit>,
    /// The guest waits for a turn, and for nothing else.
    waits: bool,
    /// Turns that it asked for since it last waited for the host.
    in_a_row: u32,
}

impl Slices {
    /// As many turns at a time as half of the cores, but at least one.
    pub(crate) fn for_this_machine() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self::at_a_time((cores / 2).max(1))
    }

    fn at_a_time(slices: usize) -> Self {
        Self(Arc::new(Semaphore::new(slices)))
    }

    pub(crate) fn turn(&self) -> Turn {
        Turn {
            slices: Arc::clone(&self.0),
            state: Arc::default(),
        }
    }
}

impl Turn {
    /// Waits for the next turn, first come first served. To be awaited within [`Turn::during`], which ends the turn.
    pub(crate) fn next(&self) -> impl Future<Output = ()> + Send + use<> {
        let turn = self.clone();
        async move {
            {
                let mut state = lock(&turn.state);
                state.waits = true;
                state.in_a_row = state.in_a_row.saturating_add(1);
            }
            // The semaphore is never closed, so this never fails.
            let permit = turn.slices.acquire_owned().await.ok();
            tokio::time::sleep(BREATHER).await;
            let mut state = lock(&turn.state);
            state.waits = false;
            state.permit = permit;
        }
    }

    /// Whether the guest computes: it would continue if it had its turn. One turn is no sign of that, since every guest needs one after a long wait.
    pub(crate) fn is_computing(&self) -> bool {
        lock(&self.state).in_a_row > 1
    }

    /// Runs a guest. Its turn ends whenever it stops: for good, for the next turn, or for the host.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            let mut state = lock(&self.state);
            state.permit = None;
            if !state.waits {
                state.in_a_row = 0;
            }
            polled
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    /// How long another guest may take to start on a busy machine.
    const LONGEST: Duration = Duration::from_secs(30);

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_many_that_compute_no_more_run_than_there_are_turns() {
        let slices = Slices::at_a_time(2);
        let running = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let guests: Vec<_> = (0..12)
            .map(|_| {
                let (turn, running, most) = (slices.turn(), running.clone(), most.clone());
                tokio::spawn(async move {
                    let work = async {
                        for _ in 0..5 {
                            turn.next().await;
                            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(now, Ordering::SeqCst);
                            // The first waits until another one runs beside it.
                            let start = Instant::now();
                            loop {
                                std::thread::sleep(Duration::from_millis(2));
                                if most.load(Ordering::SeqCst) >= 2 || start.elapsed() > LONGEST {
                                    break;
                                }
                            }
                            running.fetch_sub(1, Ordering::SeqCst);
                        }
                    };
                    turn.during(work).await;
                })
            })
            .collect();
        for guest in guests {
            guest.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
        assert_eq!(slices.0.available_permits(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_waits_for_the_host_leaves_its_turn_to_others() {
        let slices = Slices::at_a_time(1);
        let (waiting, other) = (slices.turn(), slices.turn());
        let waits = waiting.during(async {
            waiting.next().await;
            std::future::pending::<()>().await;
        });
        let runs = other.during(async {
            for _ in 0..3 {
                other.next().await;
            }
        });
        tokio::select! {
            biased;
            () = waits => {}
            () = runs => {}
        }
        assert_eq!(slices.0.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_computes_until_it_waits_for_the_host() {
        let turn = Slices::at_a_time(1).turn();
        let work = async {
            assert!(!turn.is_computing());
            turn.next().await;
            assert!(!turn.is_computing(), "after a wait");
            turn.next().await;
            assert!(turn.is_computing(), "in a row");
            tokio::task::yield_now().await;
            assert!(!turn.is_computing(), "after another wait");
        };
        turn.during(work).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_is_dropped_leaves_its_place_and_its_turn() {
        let slices = Slices::at_a_time(1);
        for _ in 0..3 {
            let (first, second) = (slices.turn(), slices.turn());
            let first = first.during(async {
                loop {
                    first.next().await;
                }
            });
            let second = second.during(second.next());
            let both = async { tokio::join!(first, second) };
            assert!(tokio::time::timeout(BREATHER / 2, both).await.is_err());
        }
        assert_eq!(slices.0.available_permits(), 1);
    }
}

//! The clock that interrupts guests. It ticks while a guest runs, and rests while none does: an idle host does not wake.
//!
//! It knows neither calls nor their limits.

use crate::error::EngineError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread::{self, Thread};
use std::time::Duration;

/// Time between two ticks: how long a guest may hold a thread before it yields, and the precision of its CPU limit. 10 ms has no measurable cost, and
/// with two guests spinning on two cores other calls are delayed by less than that.
const TICK: Duration = Duration::from_millis(10);
/// Ticks without a running guest before the clock rests. 100, which is 1 s: to wake it costs a call a system call, so a host with calls in each second
/// does not let it rest. Far more than the ticks after which a guest is checked: one that waited for so long is checked as soon as it runs again.
const TICKS_BEFORE_REST: u32 = 100;

/// The clock of one engine. It ends when it is dropped.
pub(crate) struct Ticker {
    state: Arc<State>,
    thread: Thread,
}

#[derive(Default)]
struct State {
    /// Guests that run now.
    running: AtomicUsize,
    /// The thread is parked, or about to be.
    rests: AtomicBool,
    /// The ticker was dropped.
    ended: AtomicBool,
}

/// A guest that runs.
struct Running<'a>(&'a State);

impl Ticker {
    /// Starts the clock. An operating system thread and not a task: a spinning guest can hold every thread of the runtime, and then no task would run
    /// that could stop it.
    pub(crate) fn start(tick: impl Fn() + Send + 'static) -> Result<Self, EngineError> {
        let state = Arc::<State>::default();
        let of_thread = Arc::clone(&state);
        let started = thread::Builder::new()
            .name("wasmount-ticker".to_owned())
            .spawn(move || of_thread.run(tick));
        let handle = started
            .map_err(|error| EngineError::Start(format!("no thread for the clock: {error}")))?;
        let thread = handle.thread().clone();
        Ok(Self { state, thread })
    }

    /// Polls a guest under the clock. One that waits for the host is not polled, and does not run.
    pub(crate) fn poll<T>(
        &self,
        guest: Pin<&mut impl Future<Output = T>>,
        context: &mut Context<'_>,
    ) -> Poll<T> {
        let _running = self.enter();
        guest.poll(context)
    }

    fn enter(&self) -> Running<'_> {
        // The thread writes `rests` and then reads `running`, this one the other way round: in one order of all (`SeqCst`), one of them sees the
        // other's write.
        self.state.running.fetch_add(1, Ordering::SeqCst);
        // Read first: it is written only where the clock rests, and all guests share it.
        if self.state.rests.load(Ordering::SeqCst) && self.state.rests.swap(false, Ordering::SeqCst)
        {
            self.thread.unpark();
        }
        Running(&self.state)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl State {
    fn run(&self, tick: impl Fn()) {
        let mut idle_ticks = 0;
        while !self.ended.load(Ordering::SeqCst) {
            if self.is_idle() {
                idle_ticks += 1;
            } else {
                idle_ticks = 0;
            }
            if idle_ticks >= TICKS_BEFORE_REST {
                self.rest();
                idle_ticks = 0;
            }
            thread::sleep(TICK);
            tick();
        }
    }

    /// Returns when a guest runs or has run, or at the end.
    fn rest(&self) {
        self.rests.store(true, Ordering::SeqCst);
        if self.is_idle() {
            // `park` may return without a reason.
            while self.rests.load(Ordering::SeqCst) && !self.ended.load(Ordering::SeqCst) {
                thread::park();
            }
        }
        self.rests.store(false, Ordering::SeqCst);
    }

    fn is_idle(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Weak;
    use std::time::Instant;

    /// How long a busy machine may take for what follows within a second.
    const LONGEST: Duration = Duration::from_secs(60);

    fn counting() -> (Ticker, Weak<AtomicUsize>) {
        let ticks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::downgrade(&ticks);
        let tick = move || {
            ticks.fetch_add(1, Ordering::SeqCst);
        };
        (Ticker::start(tick).unwrap(), counted)
    }

    fn ticks(counted: &Weak<AtomicUsize>) -> usize {
        counted.upgrade().unwrap().load(Ordering::SeqCst)
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < LONGEST, "{what}");
            thread::yield_now();
        }
    }

    fn rests(ticker: &Ticker) -> bool {
        ticker.state.rests.load(Ordering::SeqCst)
    }

    #[test]
    fn the_clock_ticks_while_a_guest_runs_and_rests_after() {
        let (ticker, counted) = counting();
        for _ in 0..2 {
            let running = ticker.enter();
            let before = ticks(&counted);
            until("no ticks", || ticks(&counted) > before + 2);
            drop(running);
            until("no rest", || rests(&ticker));
            let at_rest = ticks(&counted);
            assert!(rests(&ticker));
            assert_eq!(ticks(&counted), at_rest);
        }
    }

    #[test]
    fn a_short_call_wakes_the_clock_for_later_ones() {
        let (ticker, counted) = counting();
        until("no rest", || rests(&ticker));
        let before = ticks(&counted);
        drop(ticker.enter());
        until("no ticks", || ticks(&counted) > before + 2);
    }

    #[test]
    fn the_clock_does_not_rest_while_a_guest_runs_for_long() {
        let (ticker, counted) = counting();
        let _running = ticker.enter();
        let enough = usize::try_from(2 * TICKS_BEFORE_REST).unwrap();
        until("too few ticks", || {
            assert!(!rests(&ticker));
            ticks(&counted) > enough
        });
    }

    #[tokio::test]
    async fn a_guest_runs_only_while_it_is_polled() {
        let (ticker, _) = counting();
        let idle = || ticker.state.is_idle();
        let mut guest = pin!(async {
            assert!(!idle());
            tokio::task::yield_now().await;
            assert!(!idle());
        });
        for is_last in [false, true] {
            assert!(idle());
            let polled = poll_fn(|context| Poll::Ready(ticker.poll(guest.as_mut(), context)));
            assert_eq!(polled.await.is_ready(), is_last);
        }
        assert!(idle());
    }

    #[test]
    fn the_clock_ends_with_its_engine_at_rest_or_not() {
        for at_rest in [false, true] {
            let (ticker, counted) = counting();
            if at_rest {
                until("no rest", || rests(&ticker));
            }
            drop(ticker);
            until("it goes on", || counted.strong_count() == 0);
        }
    }
}

//! A phase: lanes side by side, each with one volume after the other, for some time or some repetitions.

use crate::directories::Paths;
use crate::life::{Ended, Life, Scene};
use crate::measured::Measured;
use crate::options::Amount;
use crate::plan::Plan;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use wasmount_core::mutex::lock;

/// Pause of a lane after a failed RPC: clients of a driver back off, and a driver that always fails is not asked without a pause.
const PAUSE: Duration = Duration::from_millis(100);

/// Called after each repetition that is measured.
pub(crate) type Progress = Arc<dyn Fn() + Send + Sync>;

/// What the lanes share.
pub(crate) struct Phase {
    pub(crate) scene: Arc<Scene>,
    pub(crate) plan: Plan,
    pub(crate) amount: Amount,
    /// How the names of its volumes begin.
    pub(crate) prefix: String,
    /// None: its repetitions are not those that were asked for.
    pub(crate) progress: Option<Progress>,
    begun: AtomicU64,
    named: AtomicU64,
    start: OnceLock<Instant>,
    measured: Mutex<Measured>,
}

impl Phase {
    pub(crate) fn new(
        scene: Arc<Scene>,
        plan: Plan,
        amount: Amount,
        prefix: String,
        progress: Option<Progress>,
        measured: Measured,
    ) -> Self {
        Self {
            scene,
            plan,
            amount,
            prefix,
            progress,
            begun: AtomicU64::new(0),
            named: AtomicU64::new(0),
            start: OnceLock::new(),
            measured: Mutex::new(measured),
        }
    }

    /// Runs so many lanes to their end.
    pub(crate) async fn run(self, lanes: u16) -> Measured {
        let shared = Arc::new(self);
        let barrier = Arc::new(Barrier::new(usize::from(lanes)));
        let mut running = JoinSet::new();
        for _ in 0..lanes {
            let (shared, barrier) = (Arc::clone(&shared), Arc::clone(&barrier));
            running.spawn(async move { shared.lane(&barrier).await });
        }
        let mut elapsed = Duration::ZERO;
        while let Some(ended) = running.join_next().await {
            match ended {
                Ok(took) => elapsed = elapsed.max(took),
                Err(error) => shared.lane_broke_down(&error),
            }
        }
        let mut measured = shared.measured();
        measured.elapsed = elapsed;
        measured
    }

    /// Returns how long it repeated, after the start of the phase.
    async fn lane(&self, barrier: &Barrier) -> Duration {
        // Its volumes use the same paths one after the other: to make them is kubelet's work, and would be measured as the driver's.
        let mut paths = None;
        let mut kept = self.prepared(&mut paths).await;
        barrier.wait().await;
        let start = *self.start.get_or_init(Instant::now);
        while self.may_begin(start) {
            let life = match kept.take() {
                Some(life) => Some(life),
                None => self.prepared(&mut paths).await,
            };
            let Some(mut life) = life else {
                continue;
            };
            let begun = Instant::now();
            let lived = life.live(
                &self.scene,
                &self.plan.repeated,
                Some(start),
                &self.measured,
            );
            match lived.await {
                Ok(()) => {
                    lock(&self.measured).repeated(begun.elapsed());
                    if let Some(progress) = &self.progress {
                        progress();
                    }
                    if self.plan.before.is_empty() {
                        paths = self.end(life).await;
                    } else {
                        kept = Some(life);
                    }
                }
                Err(ended) => paths = self.end_early(life, ended).await,
            }
        }
        let took = start.elapsed();
        if let Some(life) = kept {
            paths = self.end(life).await;
        }
        self.remove(paths);
        took
    }

    /// A volume with all that comes before the measurement; none if that failed.
    async fn prepared(&self, paths: &mut Option<Paths>) -> Option<Life> {
        let number = self.named.fetch_add(1, Ordering::Relaxed);
        let mut life = Life::named(format!("{}-{number}", self.prefix), paths.take());
        let before = life.live(&self.scene, &self.plan.before, None, &self.measured);
        match before.await {
            Ok(()) => Some(life),
            Err(ended) => {
                *paths = self.end_early(life, ended).await;
                None
            }
        }
    }

    async fn end_early(&self, life: Life, ended: Ended) -> Option<Paths> {
        let paths = self.end(life).await;
        if ended == Ended::Failed {
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = self.scene.stop.asked() => {}
            }
        }
        paths
    }

    /// Another volume with all that comes before the measurement; none if there are enough, or one failed.
    pub(crate) async fn next_prepared(&self) -> Option<Life> {
        let is_sound = lock(&self.measured).failed.is_empty();
        match is_sound && self.may_begin(Instant::now()) {
            true => {
                let mut paths = None;
                let life = self.prepared(&mut paths).await;
                self.remove(paths);
                life
            }
            false => None,
        }
    }

    /// Names what such a lane may have left.
    pub(crate) fn lane_broke_down(&self, error: &JoinError) {
        let prefix = &self.prefix;
        lock(&self.measured).left.push(format!(
            "a lane broke down ({error}): volumes whose names begin with {prefix} may exist"
        ));
    }

    /// What was measured so far.
    pub(crate) fn measured(&self) -> Measured {
        lock(&self.measured).clone()
    }

    /// Undoes what is open of a volume; its paths, if another one can use them.
    pub(crate) async fn end(&self, life: Life) -> Option<Paths> {
        let ended = life.end(&self.scene).await;
        ended.unwrap_or_else(|left| {
            lock(&self.measured).left.extend(left);
            None
        })
    }

    /// Removes paths that no other volume will use.
    pub(crate) fn remove(&self, paths: Option<Paths>) {
        let left = paths.into_iter().flat_map(Paths::remove);
        lock(&self.measured).left.extend(left);
    }

    fn may_begin(&self, start: Instant) -> bool {
        !self.scene.stop.is_asked()
            && match self.amount {
                Amount::Time(time) => start.elapsed() < time,
                Amount::Total(total) => self.begun.fetch_add(1, Ordering::Relaxed) < total,
            }
    }
}

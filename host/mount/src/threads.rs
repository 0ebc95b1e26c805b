//! Runs blocking work on threads with a budget for each driver, so that hung storage affects only its own driver.
//!
//! Teardown, with the reads of the journal that precede it, has a separate budget: set-ups that wait for a device or a server must not keep pods
//! Terminating. Statistics have a separate small budget, and so have pools, and copies, whose duration is not limited.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Span;
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;

/// How many drivers have their own budget before unused ones are dropped: a client may name any driver.
const KEPT_BUDGETS: usize = 256;
/// How long a call waits for a thread of its driver. 5 s: a hundred times what a stage takes, and well below any client's deadline.
const WAIT_FOR_THREAD: Duration = Duration::from_secs(5);
/// Share of the budget that statistics have in addition: a quarter, at least one.
const STATS_SHARE: usize = 4;

/// Share of the budget that copies have in addition: a half, at least one. Each may occupy its thread for hours.
const COPIES_SHARE: usize = 2;

/// The budgets of all drivers.
#[derive(Debug)]
pub(crate) struct Budgets {
    per_driver: usize,
    threads: Mutex<BTreeMap<DriverName, Threads>>,
}

/// The budget of one driver.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    /// For jobs that mount or expand.
    pub(crate) set_up: Lane,
    /// For jobs that unmount, or that read records.
    pub(crate) tear_down: Lane,
    pub(crate) pool: Lane,
    pub(crate) copies: Lane,
    pub(crate) stats: Lane,
}

/// Threads for one kind of job of a driver.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    driver: DriverName,
    permits: Arc<Semaphore>,
    size: usize,
    /// What the administrator should check when all its threads are occupied.
    hint: &'static str,
}

impl Lane {
    fn new(driver: &DriverName, size: usize, hint: &'static str) -> Self {
        let size = size.max(1);
        Self {
            driver: driver.clone(),
            permits: Arc::new(Semaphore::new(size)),
            size,
            hint,
        }
    }

    /// Runs a job. It continues to its end even if the caller is gone.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, MountError> + Send + 'static,
    ) -> Result<T, MountError> {
        begin(self.permit(WAIT_FOR_THREAD).await?, job).await
    }

    /// Waits for a thread, which the result reserves.
    pub(crate) async fn permit(&self, wait: Duration) -> Result<OwnedSemaphorePermit, MountError> {
        match tokio::time::timeout(wait, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(MountError::out_of_threads(
                format!("driver {}", self.driver),
                format!(
                    "all {} threads that the driver has for this have been taken for {} s; {}",
                    self.size,
                    wait.as_secs(),
                    self.hint
                ),
            )),
        }
    }
}

impl Budgets {
    /// At most `per_driver` threads for the mounts of each driver.
    pub(crate) fn new(per_driver: usize) -> Self {
        Self {
            per_driver,
            threads: Mutex::default(),
        }
    }

    /// The budget of one driver.
    pub(crate) fn of(&self, driver: &DriverName) -> Threads {
        let mut threads = lock(&self.threads);
        if threads.len() >= KEPT_BUDGETS && !threads.contains_key(driver) {
            threads.retain(|_, threads| threads.is_used());
        }
        threads
            .entry(driver.clone())
            .or_insert_with(|| Threads::new(driver, self.per_driver))
            .clone()
    }
}

impl Threads {
    /// At most `budget` threads for set-ups, as many for teardown and for pools, half of it for copies and a quarter for statistics.
    pub(crate) fn new(driver: &DriverName, budget: usize) -> Self {
        let hung = "look for hung mounts of this driver";
        let storage = "look for devices and servers that its volumes wait for";
        let copies = "wait for its copies that are under way";
        Self {
            set_up: Lane::new(driver, budget, storage),
            tear_down: Lane::new(driver, budget, hung),
            pool: Lane::new(driver, budget, "look for hung storage below its pools"),
            copies: Lane::new(driver, budget / COPIES_SHARE, copies),
            stats: Lane::new(driver, budget / STATS_SHARE, hung),
        }
    }

    /// Whether another copy of it exists, or a job runs.
    fn is_used(&self) -> bool {
        let lanes = [
            &self.set_up,
            &self.tear_down,
            &self.pool,
            &self.copies,
            &self.stats,
        ];
        // A permit keeps a reference to its semaphore.
        lanes
            .iter()
            .any(|lane| Arc::strong_count(&lane.permits) > 1)
    }
}

/// Runs a job that queries storage on a reserved thread, with a deadline. `None`: there was no answer; the thread becomes free when there is one.
pub(crate) async fn query<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    wait: Duration,
    job: impl FnOnce() -> Result<T, MountError> + Send + 'static,
) -> Result<Option<T>, MountError> {
    let answer = tokio::time::timeout(wait, begin(permit, job)).await;
    answer.ok().transpose()
}

async fn begin<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    job: impl FnOnce() -> Result<T, MountError> + Send + 'static,
) -> Result<T, MountError> {
    unbudgeted(move || {
        // Released when the job has really ended, not when its caller is gone.
        let _permit = permit;
        job()
    })
    .await
}

/// Runs a job that accesses no storage and belongs to no driver.
pub(crate) async fn unbudgeted<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, MountError> + Send + 'static,
) -> Result<T, MountError> {
    let span = Span::current();
    let done = tokio::task::spawn_blocking(move || span.in_scope(job)).await;
    done.unwrap_or_else(|_| Err(MountError::lost_worker()))
}

/// Runs a job that may hang on a new thread. `None`: it did not finish within `wait`, and still runs.
pub(crate) fn within<T: Send + 'static>(
    wait: Duration,
    name: &str,
    job: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (answer, answered) = mpsc::channel();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        // After the deadline there is no receiver any more.
        let _ = answer.send(job());
    })?;
    Ok(answered.recv_timeout(wait).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(name: &str) -> Threads {
        Threads::new(&DriverName::parse(name).unwrap(), 2)
    }

    #[test]
    fn drivers_that_are_only_named_are_forgotten() {
        let budgets = Budgets::new(1);
        let named = |name: &str| budgets.of(&DriverName::parse(name).unwrap());
        let used = named("used.test");
        for number in 0..4 * KEPT_BUDGETS {
            named(&format!("unknown-{number}.test"));
        }
        let kept = budgets.threads.lock().unwrap();
        assert!(kept.len() <= KEPT_BUDGETS, "{}", kept.len());
        let still = kept.get(&DriverName::parse("used.test").unwrap()).unwrap();
        assert!(Arc::ptr_eq(&still.set_up.permits, &used.set_up.permits));
    }

    #[tokio::test]
    async fn a_driver_whose_threads_all_hang_is_refused_and_another_works() {
        let (hung, healthy) = (threads("hung"), threads("healthy"));
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let mut jobs = Vec::new();
        for _ in 0..2 {
            let (hung, wait) = (hung.clone(), wait.clone());
            jobs.push(tokio::spawn(async move {
                hung.set_up
                    .run(move || Ok(wait.lock().unwrap().recv().is_err()))
                    .await
            }));
        }
        tokio::task::yield_now().await;
        let short_wait = Duration::from_millis(10);
        assert!(matches!(
            hung.set_up.permit(short_wait).await,
            Err(MountError::OutOfThreads { .. })
        ));
        assert_eq!(healthy.set_up.run(|| Ok(7)).await, Ok(7));
        // Teardown, statistics, pools and copies have separate threads.
        assert_eq!(hung.tear_down.run(|| Ok(8)).await, Ok(8));
        let turn = hung.stats.permit(WAIT_FOR_THREAD).await.unwrap();
        assert_eq!(query(turn, WAIT_FOR_THREAD, || Ok(8)).await, Ok(Some(8)));
        assert_eq!(hung.pool.run(|| Ok(8)).await, Ok(8));
        assert_eq!(hung.copies.run(|| Ok(8)).await, Ok(8));
        drop(release);
        for job in jobs {
            assert_eq!(job.await.unwrap(), Ok(true));
        }
        assert_eq!(hung.set_up.run(|| Ok(9)).await, Ok(9));
    }

    #[tokio::test]
    async fn copies_use_at_most_half_of_the_thread_budget() {
        let threads = Threads::new(&DriverName::parse("a").unwrap(), 4);
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let mut copies = Vec::new();
        for _ in 0..2 {
            let (threads, wait) = (threads.clone(), wait.clone());
            copies.push(tokio::spawn(async move {
                threads
                    .copies
                    .run(move || Ok(wait.lock().unwrap().recv().is_err()))
                    .await
            }));
        }
        tokio::task::yield_now().await;
        let short_wait = Duration::from_millis(10);
        let refused = threads.copies.permit(short_wait).await;
        assert!(refused.unwrap_err().to_string().contains("copies"));
        assert_eq!(threads.pool.run(|| Ok(7)).await, Ok(7));
        drop(release);
        for copy in copies {
            assert_eq!(copy.await.unwrap(), Ok(true));
        }
        assert_eq!(threads.copies.run(|| Ok(8)).await, Ok(8));
    }

    #[tokio::test]
    async fn a_query_timeout_differs_from_a_missing_thread() {
        let threads = threads("a");
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let short_wait = Duration::from_millis(10);
        let turn = threads.stats.permit(short_wait).await.unwrap();
        assert_eq!(query(turn, WAIT_FOR_THREAD, || Ok(1)).await, Ok(Some(1)));
        let turn = threads.stats.permit(short_wait).await.unwrap();
        let hung = query(turn, short_wait, move || Ok(wait.recv().is_err()));
        assert_eq!(hung.await, Ok(None));
        let refused = threads.stats.permit(short_wait).await.map(drop);
        assert!(matches!(refused, Err(MountError::OutOfThreads { .. })));
        drop(release);
        let turn = threads.stats.permit(WAIT_FOR_THREAD).await.unwrap();
        assert_eq!(query(turn, WAIT_FOR_THREAD, || Ok(2)).await, Ok(Some(2)));
    }

    #[tokio::test]
    async fn a_job_that_ends_without_an_answer_gives_its_thread_back() {
        let threads = threads("a");
        for _ in 0..3 {
            let answer: Result<(), _> = threads.set_up.run(|| panic!("as a test")).await;
            assert!(matches!(answer, Err(MountError::Unreachable { .. })));
        }
        assert_eq!(threads.set_up.run(|| Ok(1)).await, Ok(1));
    }
}

//! The one place of the room where blocking work leaves the async world: on threads that each driver has a budget of.
//!
//! It is apart so that storage that hangs costs its own driver its budget, and no other driver anything. Statistics have a small budget of
//! their own: they touch storage once a minute and volume, and must not take the threads that tear-down needs; nor must pools, where a copy
//! takes as long as it takes. It must not know what a job does.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;

/// How long a call waits for a thread of its driver. 5 s: a hundred times what a stage takes, and well below any client's deadline.
const WAIT_FOR_THREAD: Duration = Duration::from_secs(5);
/// Share of the budget that statistics have beside it: a quarter, at least one.
const STATS_SHARE: usize = 4;

/// The budget of one driver.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    driver: String,
    work: Lane,
    pool: Lane,
    stats: Lane,
}

#[derive(Debug, Clone)]
struct Lane {
    permits: Arc<Semaphore>,
    size: usize,
}

impl Lane {
    fn new(size: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(size)),
            size,
        }
    }
}

impl Threads {
    /// `budget` threads at most for mounts, as many for pools, and a quarter of it for statistics.
    pub(crate) fn new(driver: &DriverName, budget: usize) -> Self {
        let budget = budget.max(1);
        Self {
            driver: driver.to_string(),
            work: Lane::new(budget),
            pool: Lane::new(budget),
            stats: Lane::new((budget / STATS_SHARE).max(1)),
        }
    }

    /// Runs a job that mounts or unmounts. It runs to its end even if the caller goes away.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, MountError> + Send + 'static,
    ) -> Result<T, MountError> {
        self.run(&self.work, WAIT_FOR_THREAD, job).await
    }

    /// Runs a job on a pool.
    pub(crate) async fn pool<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, MountError> + Send + 'static,
    ) -> Result<T, MountError> {
        self.run(&self.pool, WAIT_FOR_THREAD, job).await
    }

    /// Runs a job that asks storage for figures.
    pub(crate) async fn stats<T: Send + 'static>(
        &self,
        wait: Duration,
        job: impl FnOnce() -> Result<T, MountError> + Send + 'static,
    ) -> Result<T, MountError> {
        self.run(&self.stats, wait, job).await
    }

    async fn run<T: Send + 'static>(
        &self,
        lane: &Lane,
        wait: Duration,
        job: impl FnOnce() -> Result<T, MountError> + Send + 'static,
    ) -> Result<T, MountError> {
        let permit = tokio::time::timeout(wait, lane.permits.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(MountError::OutOfThreads {
                what: format!("driver {}", self.driver),
                reason: format!(
                    "all {} threads of the driver have been waiting for it for {} s; look for hung mounts of this driver",
                    lane.size,
                    wait.as_secs()
                ),
            });
        };
        let task = tokio::task::spawn_blocking(move || {
            // Given back when the job has really ended, not when its caller has.
            let _permit = permit;
            job()
        });
        task.await.unwrap_or_else(|_| {
            Err(MountError::Unreachable {
                reason: "its worker ended without an answer: this is a bug of the host".to_owned(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(name: &str) -> Threads {
        Threads::new(&DriverName::parse(name).unwrap(), 2)
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
                hung.work(move || Ok(wait.lock().unwrap().recv().is_err()))
                    .await
            }));
        }
        tokio::task::yield_now().await;
        let no_patience = Duration::from_millis(10);
        assert!(matches!(
            hung.run(&hung.work, no_patience, || Ok(())).await,
            Err(MountError::OutOfThreads { .. })
        ));
        assert_eq!(healthy.work(|| Ok(7)).await, Ok(7));
        // Statistics have threads of their own.
        assert_eq!(hung.stats(WAIT_FOR_THREAD, || Ok(8)).await, Ok(8));
        drop(release);
        for job in jobs {
            assert_eq!(job.await.unwrap(), Ok(true));
        }
        assert_eq!(hung.work(|| Ok(9)).await, Ok(9));
    }

    #[tokio::test]
    async fn a_job_that_ends_without_an_answer_gives_its_thread_back() {
        let threads = threads("a");
        for _ in 0..3 {
            let answer: Result<(), _> = threads.work(|| panic!("as a test")).await;
            assert!(matches!(answer, Err(MountError::Unreachable { .. })));
        }
        assert_eq!(threads.work(|| Ok(1)).await, Ok(1));
    }
}

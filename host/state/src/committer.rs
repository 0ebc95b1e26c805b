//! Group commit: one thread makes all waiting writes durable, once for all callers that wait.
//!
//! It knows nothing of keys and values.

use crate::database::Database;
use crate::pending::Pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wasmount_core::mutex::lock;
use wasmount_core::state::{StateError, StoreUsage};

/// Time without a commit after which the file is prepared to open fast: longer than the pauses of a burst of calls, and shorter than a process needs
/// to be seen as idle.
const IDLE: Duration = Duration::from_secs(1);

/// What the store and its committer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pending: Mutex<Pending>,
    /// The file below.
    pub(crate) database: Database,
    commits: AtomicU64,
    commit_nanoseconds: AtomicU64,
}

impl Shared {
    pub(crate) fn new(database: Database, pending: Pending) -> Self {
        Self {
            pending: Mutex::new(pending),
            database,
            commits: AtomicU64::new(0),
            commit_nanoseconds: AtomicU64::new(0),
        }
    }

    /// The writes that wait. The lock is held for microseconds.
    pub(crate) fn pending(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    /// The size of the file, and the commits so far.
    pub(crate) fn usage(&self) -> StoreUsage {
        let nanoseconds = self.commit_nanoseconds.load(Ordering::Relaxed);
        StoreUsage {
            file_bytes: self.database.file_bytes(),
            commits: self.commits.load(Ordering::Relaxed),
            commit_time: Duration::from_nanos(nanoseconds),
        }
    }

    fn commit(&self) -> Result<(), StateError> {
        let batch = {
            let mut pending = self.pending();
            if pending.is_empty() {
                return Ok(());
            }
            pending.batch()
        };
        let began = Instant::now();
        let result = self.database.commit(&batch);
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_nanoseconds.fetch_add(took, Ordering::Relaxed);
        match &result {
            Ok(()) => self.pending().settle(&batch),
            Err(_) => self.pending().keep(&batch),
        }
        result
    }
}

/// The thread and its channel. When it is dropped, the thread makes a last commit and ends.
#[derive(Debug)]
pub(crate) struct Committer {
    requests: Option<Sender<Waiter>>,
    thread: Option<JoinHandle<()>>,
}

type Waiter = oneshot::Sender<Result<(), Arc<StateError>>>;

impl Committer {
    pub(crate) fn start(shared: Arc<Shared>) -> std::io::Result<Self> {
        let (requests, waiting) = channel();
        let thread = std::thread::Builder::new()
            .name("state-commit".to_owned())
            .spawn(move || run(&shared, &waiting))?;
        Ok(Self {
            requests: Some(requests),
            thread: Some(thread),
        })
    }

    /// Returns after a commit that began after this call.
    pub(crate) async fn commit(&self) -> Result<(), StateError> {
        let (waiter, answer) = oneshot::channel();
        let sent = self
            .requests
            .as_ref()
            .is_some_and(|requests| requests.send(waiter).is_ok());
        if !sent {
            return Err(ended());
        }
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(match *error {
                StateError::Full => StateError::Full,
                _ => StateError::failed("commit", error),
            }),
            Err(_) => Err(ended()),
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the state store's committer ended with a panic");
        }
    }
}

fn run(shared: &Shared, waiting: &Receiver<Waiter>) {
    let mut next = waiting.recv().ok();
    while let Some(first) = next {
        // A caller that requested a commit before the batch is taken is served by it.
        let waiters: Vec<Waiter> = std::iter::once(first).chain(waiting.try_iter()).collect();
        let result = shared.commit().map_err(Arc::new);
        for waiter in waiters {
            // Fails if the caller no longer waits.
            let _ = waiter.send(result.clone());
        }
        next = match waiting.recv_timeout(IDLE) {
            Err(RecvTimeoutError::Timeout) => {
                shared.database.prepare_fast_open();
                waiting.recv().ok()
            }
            next => next.ok(),
        };
    }
    if let Err(error) = shared.commit() {
        let error: &dyn std::error::Error = &error;
        tracing::error!(error, "the state store lost unacknowledged writes");
    }
}

fn ended() -> StateError {
    StateError::failed("commit", "the committer has ended")
}

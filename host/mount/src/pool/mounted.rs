//! Pools that the host mounts itself: mounted before their first use, verified against the grant, mounted anew after their server lost them, and
//! unmounted when they are not used any more.
//!
//! The mount point lies in the host's run directory and is named by the grant, so that a restarted host finds the mount of the one before it. A pool
//! that is not used for a while is closed: a pool on a server belongs to one host at a time, and another one may be waiting for it.

mod mount_point;

use crate::pool::handle::Pool;
use crate::pool::users::{self, User};
use crate::pool::{InUse, group_move};
use crate::threads::Threads;
use mount_point::MountPoint;
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use wasmount_core::document::PoolMount;
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;

/// The directory of the mount points in the run directory.
const FOLDER: &str = "pools";
/// Threads for the calls of one such pool. 8: a client has about that many controller calls under way, and a server that does not answer must leave
/// the threads of the driver's other pools alone.
const THREADS: usize = 8;
/// How long a pool stays open after its last call. 60 s: calls for one claim follow each other within seconds, and another host that takes over the
/// controller service waits this long at most.
const KEPT_OPEN: Duration = Duration::from_secs(60);

/// The pools that this host mounts itself.
#[derive(Debug)]
pub(crate) struct MountedPools {
    folder: PathBuf,
    /// By their mount points, as long as a driver has the grant.
    known: Mutex<BTreeMap<PathBuf, Weak<MountedPool>>>,
}

/// A pool that the host mounts itself. Dropped when no driver has the grant any more: it is then unmounted.
pub(crate) struct MountedPool {
    mount_point: MountPoint,
    in_use: Arc<dyn InUse>,
    state: Mutex<State>,
    used: Mutex<tokio::time::Instant>,
    /// A task waits until it is not used any more.
    is_watched: AtomicBool,
    pub(super) threads: Threads,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// The last attempt to open it that failed: the answer to all calls that waited for it.
    failed: Option<(Instant, MountError)>,
}

struct Open {
    pool: Arc<Pool>,
    /// Other drivers with the same directory find it while this lives.
    _user: Arc<User>,
}

impl MountedPools {
    /// Mount points below this run directory. Nothing is mounted yet.
    pub(crate) fn new(run_dir: &Path) -> Self {
        Self {
            folder: run_dir.join(FOLDER),
            known: Mutex::default(),
        }
    }

    /// The pool of a grant: the same as before if the grant did not change.
    pub(crate) fn of(
        &self,
        driver: &DriverName,
        name: &str,
        mount: &PoolMount,
        in_use: &Arc<dyn InUse>,
    ) -> Arc<MountedPool> {
        let mount_point = MountPoint::new(&self.folder, driver, name, mount);
        let directory = mount_point.directory.clone();
        let mut known = lock(&self.known);
        known.retain(|_, pool| pool.strong_count() > 0);
        if let Some(pool) = known.get(&directory).and_then(Weak::upgrade) {
            return pool;
        }
        let pool = Arc::new(MountedPool {
            mount_point,
            in_use: Arc::clone(in_use),
            state: Mutex::default(),
            used: Mutex::new(tokio::time::Instant::now()),
            is_watched: AtomicBool::new(false),
            threads: Threads::new(driver, THREADS),
        });
        known.insert(directory, Arc::downgrade(&pool));
        pool
    }

    /// Unmounts what an earlier host mounted for grants that are gone, on a thread of its own. What is unmounted although a document that is read
    /// later needs it, is mounted again.
    pub(crate) fn clear(&self) {
        let kept: BTreeSet<OsString> = lock(&self.known)
            .keys()
            .filter_map(|directory| Some(directory.file_name()?.to_owned()))
            .collect();
        let folder = self.folder.clone();
        let thread = std::thread::Builder::new().name("pool-mounts".to_owned());
        let started = thread.spawn(move || {
            // Without the directory nothing was ever mounted.
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| !kept.contains(&entry.file_name())) {
                mount_point::take_down(&entry.path());
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "mounts of pools that an earlier host left cannot be removed");
        }
    }
}

impl MountedPool {
    /// The open pool. It is mounted if it is not, and mounted anew if the server has lost it.
    pub(super) fn open(&self) -> Result<Arc<Pool>, MountError> {
        let begun = Instant::now();
        let found = lock(&self.state)
            .open
            .as_ref()
            .map(|it| Arc::clone(&it.pool));
        if let Some(pool) = found {
            // No lock is held while the server is asked: each call waits for its own answer.
            match self.check(&pool) {
                Ok(true) => {
                    drop(group_move::hold(&pool)?);
                    return Ok(pool);
                }
                Ok(false) => self.forget(&pool),
                Err(errno) => return Err(self.mount_point.unreachable(errno)),
            }
        }
        let mut state = lock(&self.state);
        if let Some(open) = &state.open {
            return Ok(Arc::clone(&open.pool));
        }
        if let Some((at, error)) = &state.failed
            && *at > begun
        {
            return Err(error.clone());
        }
        let opened = self.opened().inspect_err(|error| {
            state.failed = Some((Instant::now(), error.clone()));
        })?;
        Ok(Arc::clone(&state.open.insert(opened).pool))
    }

    fn opened(&self) -> Result<Open, MountError> {
        let root = self.mount_point.root()?;
        let (name, directory) = (&self.mount_point.pool, &self.mount_point.directory);
        let pool = Pool::open_root(name, directory, root, true)?;
        let user = users::add(name, directory, Arc::clone(&self.in_use));
        user.found.get_or_init(|| pool.identity);
        Ok(Open { pool, _user: user })
    }

    /// Closes a pool whose mount is not usable any more, unless another call did.
    fn forget(&self, pool: &Arc<Pool>) {
        let mut state = lock(&self.state);
        if state
            .open
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(&it.pool, pool))
        {
            tracing::warn!(pool = %self.mount_point, "the mount of a pool is gone or stale on its server; mounting it again");
            state.open = None;
            mount_point::take_down(&self.mount_point.directory);
        }
    }

    /// Whether the mount is there and the server knows the pool. It asks the server.
    fn check(&self, pool: &Pool) -> Result<bool, Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        match rustix::fs::statx(&pool.root, c"", flags, StatxFlags::BASIC_STATS) {
            Ok(_) => Ok(users::leads_to(&self.mount_point.directory, pool.identity)),
            Err(Errno::STALE) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// [`MountPoint::explain`].
    pub(super) fn explain(&self, error: MountError) -> MountError {
        self.mount_point.explain(error)
    }

    /// Closes and unmounts the pool when it is not used for a while. To be called with each use, on the runtime.
    pub(super) fn keep_while_used(self: &Arc<Self>) {
        *lock(&self.used) = tokio::time::Instant::now();
        if self.is_watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let watched = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(KEPT_OPEN).await;
                let Some(pool) = watched.upgrade() else {
                    return;
                };
                if lock(&pool.used).elapsed() < KEPT_OPEN {
                    continue;
                }
                let closed = tokio::task::spawn_blocking(move || pool.close_unused());
                // A panic was reported by its thread; the host retries.
                if closed.await.unwrap_or(false) {
                    return;
                }
            }
        });
    }

    /// `false`: a copy or another driver still uses it.
    fn close_unused(&self) -> bool {
        let open = &mut lock(&self.state).open;
        if open
            .as_ref()
            .is_some_and(|it| Arc::strong_count(&it.pool) > 1)
        {
            return false;
        }
        self.is_watched.store(false, Ordering::Release);
        if open.take().is_some() {
            mount_point::take_down(&self.mount_point.directory);
        }
        true
    }
}

impl Drop for MountedPool {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let was_open = state.is_ok_and(|state| state.open.take().is_some());
        if was_open {
            mount_point::take_down(&self.mount_point.directory);
        }
    }
}

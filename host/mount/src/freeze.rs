//! Freezes the mounted file systems of images while these are copied, so that the copies are consistent at one moment and contain a clean file
//! system.
//!
//! The file systems are thawed when the copy ends, for any reason; after [`FROZEN_AT_MOST`] by a separate thread, even if the copy hangs; when the
//! host ends, before that thread does; and when the next host starts, from an intent that was written before the freeze (`intent`). So a copy must
//! not rely on the freeze, but must verify afterwards. This module identifies images by what the kernel reports alone: it knows neither volumes nor
//! pools.

mod intent;
mod mounts;

use crate::block::DeviceNumber;
use crate::failure::{MountSetupError, kernel};
use crate::threads::within;
use intent::{Intent, Intents};
use rustix::fs::syncfs;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wasmount_core::mounter::MountError;
use wasmount_sys::freeze as sys;

/// How long writers may be blocked. 5 s: sharing the blocks of a hundred images takes a fraction of it. It is half of the time for which Windows lets
/// a snapshot block its writers, so programs are built to tolerate it.
const FROZEN_AT_MOST: Duration = Duration::from_secs(5);

/// Threads that freeze beside the thread of the copy. 15: the queue of a disk serves that many requests at once. With them, 60 file systems with 1
/// MiB to write each take 0.4 s, where 40 took 3 s one after another.
const HELPERS: usize = 15;

/// Freezes on this node.
#[derive(Debug)]
pub(crate) struct Freezer {
    intents: Intents,
    /// Devices whose file systems a copy of this process has frozen, or is about to freeze.
    taken: Mutex<BTreeSet<DeviceNumber>>,
    given_back: Condvar,
    /// What copies of this process have frozen. `None`: the process ends, and nothing may be frozen any more.
    sessions: Mutex<Option<Vec<Weak<Held>>>>,
}

/// An image that is about to be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image<'a> {
    /// The last component of its path.
    pub(crate) name: &'a str,
    pub(crate) file: &'a OwnedFd,
}

/// File systems that stay frozen until this is dropped or [`FROZEN_AT_MOST`] has passed.
#[derive(Debug)]
#[must_use = "it is thawed when this is dropped"]
pub(crate) struct Frozen<'f> {
    held: Arc<Held>,
    /// Kept until this thread has finished: after the guard thawed, this thread may still be about to freeze one more.
    intent: Option<Intent>,
    /// The guard thread detects the end of the copy when this sender is dropped.
    _end: Sender<()>,
    /// Dropped last.
    _turn: Turn<'f>,
}

/// What is frozen now. The first of copy, guard and host end that takes it thaws it.
#[derive(Debug)]
struct Held(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None`: the time is over.
    frozen: Option<Vec<OwnedFd>>,
    /// A file system could not be thawed.
    is_stuck: bool,
}

/// The right to freeze some devices, until it is dropped. No other code of this process thaws them meanwhile.
#[derive(Debug)]
struct Turn<'f> {
    freezer: &'f Freezer,
    devices: BTreeSet<DeviceNumber>,
}

impl Freezer {
    /// Thaws what a killed host left frozen, before anything unmounts it. A file system that is unmounted while frozen stays frozen and cannot be
    /// reached, and the next mount of it hangs. The wait is limited, because the storage may hang.
    pub(crate) fn open(run_directory: &Path) -> Result<Self, MountSetupError> {
        let (intents, left) = Intents::open(run_directory)?;
        if !left.is_empty() {
            let thawed = within(FROZEN_AT_MOST, "thaw", move || at_once(left, thaw_left))
                .map_err(|source| MountSetupError::Thaw { source })?;
            if thawed.is_none() {
                tracing::warn!(
                    "a file system that an earlier host froze is not thawed yet: look for storage that does not answer"
                );
            }
        }
        Ok(Self {
            intents,
            taken: Mutex::default(),
            given_back: Condvar::new(),
            sessions: Mutex::new(Some(Vec::new())),
        })
    }

    /// Thaws what running copies have frozen, and freezes nothing any more. It is called at the end of the process, which also ends the guard
    /// threads.
    pub(crate) fn close(&self) {
        let sessions = lock(&self.sessions).take().unwrap_or_default();
        let sessions: Vec<_> = sessions.iter().filter_map(Weak::upgrade).collect();
        if sessions.is_empty() {
            return;
        }
        let thaw_all = || {
            at_once(sessions, |held| {
                held.thaw();
            });
        };
        match within(FROZEN_AT_MOST, "thaw", thaw_all) {
            Ok(Some(())) => {}
            Ok(None) => tracing::warn!(
                "mounted images may stay frozen until the next start: look for storage that does not answer"
            ),
            Err(error) => tracing::error!(
                %error,
                "mounted images may stay frozen until the next start: the thread that thaws them cannot be started"
            ),
        }
    }

    /// Freezes every mounted file system of these images. A file system that cannot be frozen is skipped.
    pub(crate) fn freeze(&self, images: &[Image<'_>]) -> Option<Frozen<'_>> {
        self.try_freeze(images).unwrap_or_else(|error| {
            tracing::warn!(%error, "a mounted image is copied without a freeze");
            None
        })
    }

    fn try_freeze(&self, images: &[Image<'_>]) -> Result<Option<Frozen<'_>>, MountError> {
        let (records, mounts) = mounts::mounted(images)?;
        if mounts.is_empty() {
            return Ok(None);
        }
        let turn = self.turn(records.iter().map(|record| record.number).collect())?;
        // Writes most of the dirty data before writers are blocked. An error of it occurs again in the next step.
        at_once(&mounts, |mount| {
            let _ = syncfs(mount);
        });
        let frozen = Frozen::begin(turn, self.intents.write(&records)?)?;
        at_once(mounts, |mount| frozen.freeze(mount));
        Ok(Some(frozen))
    }

    /// Waits until no other copy uses any of these devices.
    fn turn(&self, devices: BTreeSet<DeviceNumber>) -> Result<Turn<'_>, MountError> {
        let taken = lock(&self.taken);
        let (mut taken, waited) = self
            .given_back
            .wait_timeout_while(taken, FROZEN_AT_MOST, |taken| !taken.is_disjoint(&devices))
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(failed("freeze", Errno::BUSY));
        }
        taken.extend(&devices);
        Ok(Turn {
            freezer: self,
            devices,
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.freezer.taken).retain(|device| !self.devices.contains(device));
        self.freezer.given_back.notify_all();
    }
}

impl<'f> Frozen<'f> {
    /// Starts the guard thread and registers with [`Freezer::close`]. Nothing is frozen yet.
    fn begin(turn: Turn<'f>, intent: Intent) -> Result<Self, MountError> {
        let held = Arc::new(Held(Mutex::new(State {
            frozen: Some(Vec::new()),
            is_stuck: false,
        })));
        let (end, ended) = mpsc::channel();
        let guarded = Arc::clone(&held);
        let freezer = turn.freezer;
        let begun = Self {
            held,
            intent: Some(intent),
            _end: end,
            _turn: turn,
        };
        let thread = std::thread::Builder::new().name("freeze-guard".to_owned());
        let started = thread.spawn(move || {
            let ended = ended.recv_timeout(FROZEN_AT_MOST);
            if ended == Err(RecvTimeoutError::Timeout) && guarded.thaw() {
                tracing::warn!(
                    seconds = FROZEN_AT_MOST.as_secs(),
                    "a copy takes too long to keep writers waiting; it goes on without"
                );
            }
        });
        if let Err(error) = started {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
            return Err(failed("guard", errno));
        }
        match &mut *lock(&freezer.sessions) {
            Some(sessions) => {
                sessions.retain(|held| held.strong_count() > 0);
                sessions.push(Arc::downgrade(&begun.held));
            }
            None => return Err(failed("freeze", Errno::CANCELED)),
        }
        Ok(begun)
    }

    /// Freezes one more file system, if the time is not over.
    fn freeze(&self, mount: OwnedFd) {
        if lock(&self.held.0).frozen.is_none() {
            return;
        }
        // The lock is not held here: a freeze may take long, and the guard must be able to take the lock.
        let is_frozen = match sys::freeze(&mount) {
            Ok(()) => true,
            Err(errno) => {
                // Another program froze it, or it cannot be frozen at all.
                tracing::debug!(%errno, "a file system is not frozen while its image is copied");
                false
            }
        };
        let mut state = lock(&self.held.0);
        match &mut state.frozen {
            Some(frozen) if is_frozen => frozen.push(mount),
            Some(_) => {}
            None if is_frozen => state.is_stuck |= !thaw(&mount),
            None => {}
        }
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.held.thaw();
        if let Some(intent) = self.intent.take() {
            intent.end(!lock(&self.held.0).is_stuck);
        }
    }
}

impl Held {
    /// Returns when everything is thawed. `false`: another thread thawed it.
    fn thaw(&self) -> bool {
        let mut state = lock(&self.0);
        let Some(frozen) = state.frozen.take() else {
            return false;
        };
        for mount in &frozen {
            state.is_stuck |= !thaw(mount);
        }
        true
    }
}

/// Runs an action on several items, some at a time. Each waits for the disk, and the disk serves many requests at once. An item that hangs does not
/// delay the others.
fn at_once<T: Send>(
    things: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator + Send>,
    job: impl Fn(T) + Sync,
) {
    let things = things.into_iter();
    let helpers = things.len().saturating_sub(1).min(HELPERS);
    let things = Mutex::new(things);
    let next = || lock(&things).next();
    let work = || {
        while let Some(thing) = next() {
            job(thing);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            let thread = std::thread::Builder::new().name("freeze".to_owned());
            // If the thread cannot be started, the work takes longer.
            let _ = thread.spawn_scoped(scope, work);
        }
        work();
    });
}

/// Whether it is no longer frozen.
fn thaw(mount: &OwnedFd) -> bool {
    match sys::thaw(mount) {
        // Another thread thawed it first.
        Ok(()) | Err(Errno::INVAL) => true,
        Err(errno) => {
            tracing::error!(%errno, "a file system stays frozen: run `fsfreeze --unfreeze` on it; the next start of the host tries again");
            false
        }
    }
}

/// Thaws what a killed host has frozen, or was about to freeze.
fn thaw_left(intent: Intent) {
    let thaw_one = |device| match mounts::of(device) {
        Ok(mount) => mount.as_ref().is_none_or(thaw),
        Err(error) => {
            tracing::error!(%error, "what an earlier host froze may be frozen still: run `fsfreeze --unfreeze` where it is mounted; if it is not, mount the device for that");
            false
        }
    };
    let are_thawed: Vec<bool> = intent.devices().iter().map(thaw_one).collect();
    intent.end(!are_thawed.contains(&false));
}

fn failed(operation: &str, errno: Errno) -> MountError {
    kernel(operation, "what is mounted of an image", errno)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is a single step, so the data is consistent even after a panic of a thread.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

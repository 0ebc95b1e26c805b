//! Freezes what is mounted of images while these are copied, so that the copies are of one moment and hold a clean file system.
//!
//! It is thawed when the copy ends, in whatever way; after [`FROZEN_AT_MOST`] by a thread of its own, though the copy may hang; when the host ends,
//! before that thread does; and when the next host starts, by an intent that was written down before (`intent`). So whoever copies must not believe
//! in it, but look afterwards. It knows images by the kernel's word alone: neither volumes nor pools.

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

/// How long writers may be kept waiting. 5 s: sharing the blocks of a hundred images takes a fraction of it, and it is half of what Windows
/// lets a snapshot hold up its writers, so programs are made to bear it.
const FROZEN_AT_MOST: Duration = Duration::from_secs(5);

/// Threads beside the copy's own that freeze. 15: a disk's queue serves that many at once. 60 file systems with 1 MiB to write each take 0.4 s
/// then, where 40 took 3 s one after another.
const HELPERS: usize = 15;

/// Freezes on this node.
#[derive(Debug)]
pub(crate) struct Freezer {
    intents: Intents,
    /// Devices whose file systems a copy of this process has frozen, or is about to.
    taken: Mutex<BTreeSet<DeviceNumber>>,
    given_back: Condvar,
    /// What copies of this process have frozen. `None`: it ends, and nothing may be frozen any more.
    sessions: Mutex<Option<Vec<Weak<Held>>>>,
}

/// An image that is about to be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image<'a> {
    /// Its last name.
    pub(crate) name: &'a str,
    pub(crate) file: &'a OwnedFd,
}

/// Frozen until this is dropped, or [`FROZEN_AT_MOST`] has passed.
#[derive(Debug)]
#[must_use = "it is thawed when this is dropped"]
pub(crate) struct Frozen<'f> {
    held: Arc<Held>,
    /// Until this thread is through: whatever the guard thaws, it may be about to freeze one more.
    intent: Option<Intent>,
    /// The guard hears of the end by this.
    _end: Sender<()>,
    /// Given back last.
    _turn: Turn<'f>,
}

/// What is frozen now, for whoever comes first to thaw it.
#[derive(Debug)]
struct Held(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None`: the time is over.
    frozen: Option<Vec<OwnedFd>>,
    /// Something could not be thawed.
    is_stuck: bool,
}

/// The right to freeze some devices, until it is dropped: nobody else of this process thaws them meanwhile.
#[derive(Debug)]
struct Turn<'f> {
    freezer: &'f Freezer,
    devices: BTreeSet<DeviceNumber>,
}

impl Freezer {
    /// Thaws what a killed host left frozen, before anybody unmounts it: unmounted, it stays frozen and out of reach, and whoever mounts it
    /// again hangs. It does not wait for ever: the storage behind it may hang.
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

    /// Thaws what copies that still run have frozen, and freezes nothing any more. For the end of the process, which ends the guards.
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

    /// Freezes whatever file systems are mounted of these images. What cannot be frozen is left as it is.
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
        // The bulk of what is to be written, while writers need not wait for it yet. An error of it shows in the next step again.
        at_once(&mounts, |mount| {
            let _ = syncfs(mount);
        });
        let frozen = Frozen::begin(turn, self.intents.write(&records)?)?;
        at_once(mounts, |mount| frozen.freeze(mount));
        Ok(Some(frozen))
    }

    /// Waits until no other copy has any of these devices.
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
    /// Sets the guard, and lets [`Freezer::close`] know. Nothing is frozen yet.
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

    /// Freezes one more, if the time is not over.
    fn freeze(&self, mount: OwnedFd) {
        if lock(&self.held.0).frozen.is_none() {
            return;
        }
        // Not under the lock: this may take long, and the guard must come through.
        let is_frozen = match sys::freeze(&mount) {
            Ok(()) => true,
            Err(errno) => {
                // Frozen by another hand, or not to be frozen at all.
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
    /// Returns when everything is thawed; false: somebody else did it.
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

/// Does something to each of several things, some at a time: each waits for the disk, and the disk serves many at once. What hangs keeps
/// no other one waiting.
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
            // Without it, it takes longer.
            let _ = thread.spawn_scoped(scope, work);
        }
        work();
    });
}

/// Whether it is not frozen any more.
fn thaw(mount: &OwnedFd) -> bool {
    match sys::thaw(mount) {
        // Somebody else was faster.
        Ok(()) | Err(Errno::INVAL) => true,
        Err(errno) => {
            tracing::error!(%errno, "a file system stays frozen: run `fsfreeze --unfreeze` on it; the next start of the host tries again");
            false
        }
    }
}

/// Thaws what a killed host has, or was about to have, frozen.
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
    // Each change is one step, so what a panicking thread leaves is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

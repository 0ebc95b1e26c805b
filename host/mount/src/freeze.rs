//! Freezes the mounted file systems of images while these are copied, so that the copies are consistent at one moment and contain a clean file
//! system.
//!
//! The file systems are thawed when the copy ends, for any reason; after [`FROZEN_AT_MOST`] by a separate thread, even if the copy hangs; when the
//! host ends, before that thread does; and when the next host starts, from an intent. So a copy must not rely on the freeze, but must verify
//! afterwards. This module identifies images by what the kernel reports alone: it knows neither volumes nor pools.
//!
//! An intent is a file in the run directory for each freeze, written before it and removed when everything is thawed. It ends with the mounts that it
//! describes, so it is not synced.

mod mounts;

use crate::block::{BlockRecord, DeviceNumber};
use crate::failure::{MountSetupError, io, kernel};
use crate::threads::within;
use rustix::fs::syncfs;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use uuid::Uuid;
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;
use wasmount_sys::freeze as sys;

/// How long writers may be blocked. 5 s: sharing the blocks of a hundred images takes a fraction of it. It is half of the time for which Windows lets
/// a snapshot block its writers, so programs are built to tolerate it.
const FROZEN_AT_MOST: Duration = Duration::from_secs(5);

/// Threads that freeze beside the thread of the copy. 15: the queue of a disk serves that many requests at once. With them, 60 file systems with 1
/// MiB to write each take 0.4 s, where 40 took 3 s one after another.
const HELPERS: usize = 15;
/// What is frozen, for messages.
const MOUNTED: &str = "what is mounted of an image";

/// The directory of the intents in the run directory.
const DIRECTORY: &str = "frozen";
/// Only root can read it.
const DIRECTORY_MODE: u32 = 0o700;

/// Freezes on this node.
#[derive(Debug)]
pub(crate) struct Freezer {
    /// The directory of all intents.
    intents: PathBuf,
    /// What copies of this process have frozen, or are about to freeze. `None`: the process ends, and nothing may be frozen any more.
    sessions: Mutex<Option<Vec<Arc<Session>>>>,
    /// Notified at the end of each session.
    ended: Condvar,
}

/// An image that is about to be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image<'a> {
    /// The last component of its path.
    pub(crate) name: &'a str,
    pub(crate) file: &'a OwnedFd,
}

/// File systems that stay frozen until this is dropped or [`FROZEN_AT_MOST`] has passed. No other code of this process thaws their devices meanwhile.
#[derive(Debug)]
#[must_use = "it is thawed when this is dropped"]
pub(crate) struct Frozen<'f> {
    freezer: &'f Freezer,
    session: Arc<Session>,
    /// Kept until this thread has finished: after the guard thawed, this thread may still be about to freeze one more.
    intent: Option<Intent>,
    /// The guard thread detects the end of the copy when this sender is dropped.
    end: Option<Sender<()>>,
}

/// One freeze.
#[derive(Debug)]
struct Session {
    devices: BTreeSet<DeviceNumber>,
    state: Mutex<State>,
}

/// What is frozen now. The first of copy, guard and host end that takes it thaws it.
#[derive(Debug)]
struct State {
    /// `None`: the time is over.
    frozen: Option<Vec<OwnedFd>>,
    /// A file system could not be thawed.
    is_stuck: bool,
}

/// The intent of one freeze.
#[derive(Debug)]
struct Intent {
    file: PathBuf,
    /// The devices below the file systems.
    devices: Vec<BlockRecord>,
}

impl Freezer {
    /// Thaws what a killed host left frozen, before anything unmounts it. A file system that is unmounted while frozen stays frozen and cannot be
    /// reached, and the next mount of it hangs. The wait is limited, because the storage may hang.
    pub(crate) fn open(run_directory: &Path) -> Result<Self, MountSetupError> {
        let (intents, left) = Intent::left_in(run_directory)?;
        if !left.is_empty() {
            let thawed = within(FROZEN_AT_MOST, "thaw", move || at_once(left, thaw_left))
                .map_err(|source| MountSetupError::Thaw { source })?;
            if thawed.is_none() {
                tracing::warn!(
                    "a file system that an earlier host froze is not thawed yet: check for storage that does not answer"
                );
            }
        }
        Ok(Self {
            intents,
            sessions: Mutex::new(Some(Vec::new())),
            ended: Condvar::new(),
        })
    }

    /// Thaws what running copies have frozen, and freezes nothing any more. It is called at the end of the process, which also ends the guard
    /// threads.
    pub(crate) fn close(&self) {
        let sessions = lock(&self.sessions).take().unwrap_or_default();
        if sessions.is_empty() {
            return;
        }
        let thaw_all = || {
            at_once(sessions, |session| {
                session.thaw();
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
        let mut frozen = self.begin(records.iter().map(|record| record.number).collect())?;
        // Writes most of the dirty data before writers are blocked. An error of it occurs again in the next step.
        at_once(&mounts, |mount| {
            let _ = syncfs(mount);
        });
        frozen.intent = Some(Intent::write(&self.intents, records)?);
        frozen.guard()?;
        at_once(mounts, |mount| frozen.freeze(mount));
        Ok(Some(frozen))
    }

    /// Waits until no other copy uses any of these devices. Nothing is frozen yet.
    fn begin(&self, devices: BTreeSet<DeviceNumber>) -> Result<Frozen<'_>, MountError> {
        let is_taken = |sessions: &mut Option<Vec<Arc<Session>>>| {
            let mut sessions = sessions.iter().flatten();
            sessions.any(|session| !session.devices.is_disjoint(&devices))
        };
        let sessions = lock(&self.sessions);
        let (mut sessions, waited) = self
            .ended
            .wait_timeout_while(sessions, FROZEN_AT_MOST, is_taken)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(failed("freeze", Errno::BUSY));
        }
        let sessions = sessions.as_mut();
        let sessions = sessions.ok_or_else(|| failed("freeze", Errno::CANCELED))?;
        let state = Mutex::new(State {
            frozen: Some(Vec::new()),
            is_stuck: false,
        });
        let session = Arc::new(Session { devices, state });
        sessions.push(Arc::clone(&session));
        Ok(Frozen {
            freezer: self,
            session,
            intent: None,
            end: None,
        })
    }
}

impl Frozen<'_> {
    /// Starts the guard thread.
    fn guard(&mut self) -> Result<(), MountError> {
        let (end, ended) = mpsc::channel();
        self.end = Some(end);
        let guarded = Arc::clone(&self.session);
        let thread = std::thread::Builder::new().name("freeze-guard".to_owned());
        let started = thread.spawn(move || {
            let ended = ended.recv_timeout(FROZEN_AT_MOST);
            if ended == Err(RecvTimeoutError::Timeout) && guarded.thaw() {
                tracing::warn!(
                    seconds = FROZEN_AT_MOST.as_secs(),
                    "a copy takes too long to keep writers frozen; it continues without a freeze"
                );
            }
        });
        started
            .map(drop)
            .map_err(|error| io("guard", MOUNTED, &error))
    }

    /// Freezes one more file system, if the time is not over.
    fn freeze(&self, mount: OwnedFd) {
        if lock(&self.session.state).frozen.is_none() {
            return;
        }
        // The lock is not held here: a freeze may take long, and the guard must be able to take the lock.
        if let Err(errno) = sys::freeze(&mount) {
            // Another program froze it, or it cannot be frozen at all.
            tracing::debug!(%errno, "a file system is not frozen while its image is copied");
            return;
        }
        let mut state = lock(&self.session.state);
        match &mut state.frozen {
            Some(frozen) => frozen.push(mount),
            None => state.is_stuck |= !thaw(&mount),
        }
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.session.thaw();
        if let Some(intent) = self.intent.take() {
            intent.end(!lock(&self.session.state).is_stuck);
        }
        if let Some(sessions) = lock(&self.freezer.sessions).as_mut() {
            sessions.retain(|other| !Arc::ptr_eq(other, &self.session));
        }
        self.freezer.ended.notify_all();
    }
}

impl Session {
    /// Returns when everything is thawed. `false`: another thread thawed it.
    fn thaw(&self) -> bool {
        let mut state = lock(&self.state);
        let Some(frozen) = state.frozen.take() else {
            return false;
        };
        for mount in &frozen {
            state.is_stuck |= !thaw(mount);
        }
        true
    }
}

impl Intent {
    /// Creates the directory of all intents if necessary, and reads what an earlier host left.
    fn left_in(run_directory: &Path) -> Result<(PathBuf, Vec<Self>), MountSetupError> {
        let directory = run_directory.join(DIRECTORY);
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&directory)
            .map_err(|source| unusable("create", &directory, source))?;
        let failed = |source| unusable("read", &directory, source);
        let mut left = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            match serde_json::from_slice(&fs::read(&file).map_err(failed)?) {
                Ok(devices) => left.push(Self { file, devices }),
                // An intent is complete before anything is frozen, so an unreadable one is removed.
                Err(_) => fs::remove_file(&file).map_err(failed)?,
            }
        }
        Ok((directory, left))
    }

    /// Must be called before the first of these devices is frozen.
    fn write(directory: &Path, devices: Vec<BlockRecord>) -> Result<Self, MountError> {
        let intent = Self {
            file: directory.join(Uuid::new_v4().to_string()),
            devices,
        };
        let written = serde_json::to_vec(&intent.devices)
            .map_err(std::io::Error::from)
            .and_then(|text| fs::write(&intent.file, text));
        match written {
            Ok(()) => Ok(intent),
            Err(error) => {
                let file = intent.file.display().to_string();
                intent.end(true);
                Err(io("write", file, &error))
            }
        }
    }

    /// Removes the intent if nothing of it is frozen any more. Otherwise it is kept, and the next host tries again.
    fn end(self, is_thawed: bool) {
        let file = self.file.display();
        if !is_thawed {
            tracing::warn!(%file, "the freeze intent is kept for the next start");
        } else if let Err(error) = fs::remove_file(&self.file) {
            // To thaw a file system that is not frozen is harmless.
            tracing::debug!(%file, %error, "the freeze intent remains");
        }
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
            tracing::error!(%error, "file systems that an earlier host froze may still be frozen: run `fsfreeze --unfreeze` where it is mounted; if it is not, mount the device for that");
            false
        }
    };
    let are_thawed: Vec<bool> = intent.devices.iter().map(thaw_one).collect();
    intent.end(!are_thawed.contains(&false));
}

fn unusable(operation: &'static str, path: &Path, source: std::io::Error) -> MountSetupError {
    MountSetupError::Directory {
        operation,
        kind: "journal",
        path: path.to_owned(),
        parent: "run",
        source,
    }
}

fn failed(operation: &str, errno: Errno) -> MountError {
    kernel(operation, MOUNTED, errno)
}

#[cfg(test)]
mod tests;

//! Follows files that an administrator may change: documents, components, signatures, secrets, keys.
//!
//! It reads no file and does not know the purpose of any.

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};
use tokio::io::unix::AsyncFd;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

/// Poll interval for file systems without events. 30 s: each check costs a few system calls, and a person who corrects a file waits that long.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// How long no further event may arrive before the files are compared: writers cause several events at a time.
const QUIET: Duration = Duration::from_millis(100);
/// How long events may continue before the files are compared anyway: a writer may never stop. 500 ms: a person takes it for at once.
const LONGEST: Duration = Duration::from_millis(500);
/// Several events: `struct inotify_event` and a name of at most 255 bytes each (inotify(7)).
const EVENTS_BYTES: usize = 4096;

/// Links that are followed on one path: the kernel's own limit (path_resolution(7)).
const LINKS: usize = 40;

/// Whether the log already contains the warning that files are polled.
static WARNED: Once = Once::new();

/// The state of files at one moment.
pub(super) type FileStates = BTreeMap<PathBuf, FileState>;

/// The file that a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileState {
    /// No file, or one that cannot be examined.
    Nothing,
    /// A file of this identity, size and time of last change.
    File {
        device: u64,
        inode: u64,
        bytes: u64,
        /// mtime and ctime: `cp -p` can set the first back, but not the second.
        changed: [(i64, i64); 2],
    },
}

impl FileState {
    /// The present state. Links are followed.
    pub(super) fn at(path: &Path) -> Self {
        let Ok(status) = fs::metadata(path) else {
            return Self::Nothing;
        };
        let modified = (status.mtime(), status.mtime_nsec());
        Self::File {
            device: status.dev(),
            inode: status.ino(),
            bytes: status.len(),
            changed: [modified, (status.ctime(), status.ctime_nsec())],
        }
    }

    /// Whether the last change of the file is at least `age` before `now`, by the clock of its file system. False for a time in the future.
    pub(super) fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let Self::File { changed, .. } = self else {
            return false;
        };
        changed.iter().all(|(seconds, nanoseconds)| {
            let seconds = u64::try_from(*seconds).unwrap_or_default();
            let nanoseconds = u32::try_from(*nanoseconds).unwrap_or_default();
            let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
            now.duration_since(changed).is_ok_and(|since| since >= age)
        })
    }
}

/// Examines files before a caller reads and then follows them. It blocks.
pub(super) fn read_states(files: impl IntoIterator<Item = PathBuf>) -> FileStates {
    states_of(files, &FileStates::new())
}

/// The states of another list of files: those that are known stay, and that a file is new to the list is no change. It blocks.
pub(super) fn states_of(
    files: impl IntoIterator<Item = PathBuf>,
    known: &FileStates,
) -> FileStates {
    let states = files.into_iter().map(|file| {
        let state = known.get(&file).cloned();
        let state = state.unwrap_or_else(|| FileState::at(&file));
        (file, state)
    });
    states.collect()
}

/// Returns the files that are no longer in these states, once there are any; the states are then those of now. What changes before the next call is
/// seen by it.
pub(super) async fn changed(states: &mut FileStates) -> BTreeSet<PathBuf> {
    loop {
        let paths: BTreeSet<PathBuf> = states.keys().cloned().collect();
        // The watches are set up first, then the files are compared: a change in between causes an event.
        let begun = spawn_blocking(move || {
            let watch = watched(&paths);
            (watch, read_states(paths))
        });
        let Ok((watch, now)) = begun.await else {
            // The runtime is shutting down.
            return pending().await;
        };
        let others: BTreeSet<PathBuf> = now
            .iter()
            .filter(|(file, state)| states.get(*file) != Some(*state))
            .map(|(file, _)| file.clone())
            .collect();
        *states = now;
        if !others.is_empty() {
            return others;
        }
        if let Err(error) = &watch {
            WARNED.call_once(|| {
                tracing::warn!(%error, poll_seconds = POLL_INTERVAL.as_secs(), "inotify reports no changes of files to this process: polling them");
            });
        }
        may_have_changed(watch.ok()).await;
    }
}

/// Returns when it is time to compare the files.
async fn may_have_changed(watch: Option<AsyncFd<OwnedFd>>) {
    let Some(watch) = watch else {
        return sleep(POLL_INTERVAL).await;
    };
    let first = timeout_at(Instant::now() + POLL_INTERVAL, heard(&watch)).await;
    if !matches!(first, Ok(Ok(()))) {
        return;
    }
    let latest = Instant::now() + LONGEST;
    while Instant::now() < latest {
        let quiet = latest.min(Instant::now() + QUIET);
        if !matches!(timeout_at(quiet, heard(&watch)).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Waits for events and consumes them.
async fn heard(watch: &AsyncFd<OwnedFd>) -> io::Result<()> {
    let mut ready = watch.readable().await?;
    let mut read = [0; EVENTS_BYTES];
    while rustix::io::read(watch.get_ref(), &mut read).is_ok_and(|bytes| bytes > 0) {}
    ready.clear_ready();
    Ok(())
}

fn watched(files: &BTreeSet<PathBuf>) -> io::Result<AsyncFd<OwnedFd>> {
    let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    // Not each write: a file is read when its writer has closed it, or when the poll finds it.
    let changes = WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    let all: BTreeSet<PathBuf> = files.iter().flat_map(|file| directories(file)).collect();
    for directory in all {
        match add_watch(&events, &directory, changes) {
            Ok(_) => {}
            Err(rustix::io::Errno::NOSPC) => {
                return Err(io::Error::other("fs.inotify.max_user_watches is used up"));
            }
            // It was removed since, or may not be read: the poll remains.
            Err(error) => {
                tracing::debug!(directory = %directory.display(), %error, "not watched");
            }
        }
    }
    #[expect(
        deprecated,
        reason = "the successor is unsafe, for types that lie about their descriptor, which OwnedFd does not"
    )]
    AsyncFd::new(events)
}

/// The directories whose events show that a path leads to another file: each one that holds a link on the path, and the one that holds the file; for
/// a missing one, the nearest that exists; and a directory itself, for its entries. A Secret that Kubernetes mounts is a link to a link, and only the middle one is ever changed.
fn directories(file: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    if file.is_dir() {
        found.insert(file.to_owned());
    }
    let mut path = file.to_owned();
    for _ in 0..LINKS {
        let (holder, target) = first_link(&path);
        found.insert(holder);
        match target {
            Some(target) => path = target,
            None => break,
        }
    }
    found
}

/// The directory of the first link on a path, and the path with the link replaced by its target; without a link, the nearest directory that exists.
fn first_link(path: &Path) -> (PathBuf, Option<PathBuf>) {
    let mut reached = PathBuf::new();
    let mut holder = PathBuf::from("/");
    let mut rest = path.components();
    while let Some(component) = rest.next() {
        match component {
            Component::ParentDir => {
                reached.pop();
                continue;
            }
            Component::CurDir => continue,
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => {
                reached.push(component);
            }
        }
        let Ok(status) = fs::symlink_metadata(&reached) else {
            return (holder, None);
        };
        if status.is_symlink()
            && let Ok(target) = fs::read_link(&reached)
        {
            let above = reached.parent().unwrap_or(Path::new("/")).to_owned();
            let target = above.join(target).join(rest.as_path());
            return (above, Some(target));
        }
        if status.is_dir() {
            holder.clone_from(&reached);
        }
    }
    match reached.parent() {
        // The path names a directory where a file should be: its creation and removal count.
        Some(above) if reached.is_dir() => (above.to_owned(), None),
        _ => (holder, None),
    }
}

#[cfg(test)]
mod tests;

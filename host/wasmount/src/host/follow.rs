//! Follows files that an administrator may change: documents, components, signatures, secrets, keys.
//!
//! It reads no file and knows what none is for.

mod chain;
mod look;

use chain::directories;
pub(super) use look::Look;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

/// Looks without an event: where there are none. 30 s: each costs a few system calls, and a person who mends a file waits that long.
const LOOK: Duration = Duration::from_secs(30);
/// How long no further event may come before it is looked: writers make several at a time.
const QUIET: Duration = Duration::from_millis(100);
/// How long events may go on before it is looked all the same: somebody may never stop. 500 ms: a person takes it for at once.
const LONGEST: Duration = Duration::from_millis(500);
/// Several events: `struct inotify_event` and a name of at most 255 bytes each (inotify(7)).
const EVENTS_BYTES: usize = 4096;

/// Files that are followed. What is sent replaces all of them.
pub(super) type Followed = watch::Receiver<BTreeSet<PathBuf>>;

/// How files look at a moment.
pub(super) type Looks = BTreeMap<PathBuf, Look>;

/// Looks at files, for whoever reads them before they are followed. It blocks.
pub(super) fn look_at(files: impl IntoIterator<Item = PathBuf>) -> Looks {
    let looks = files.into_iter().map(|file| {
        let look = Look::at(&file);
        (file, look)
    });
    looks.collect()
}

/// Calls `changed` with the files that are other than they were at the last look, for as long as somebody says which to follow; `seen` is the look
/// before the first. A file that was not looked at before is no change.
pub(super) async fn follow(
    mut files: Followed,
    mut seen: Looks,
    mut changed: impl FnMut(BTreeSet<PathBuf>),
) {
    let mut warned = false;
    loop {
        let wanted = files.borrow_and_update().clone();
        // First the watches, then the look: what happens in between is an event.
        let begun = spawn_blocking(move || {
            let watch = watched(&wanted);
            (watch, look_at(wanted))
        });
        let Ok((watch, looks)) = begun.await else {
            // The runtime ends.
            return;
        };
        let others: BTreeSet<PathBuf> = looks
            .iter()
            .filter(|(file, look)| seen.get(*file).is_some_and(|before| before != *look))
            .map(|(file, _)| file.clone())
            .collect();
        seen = looks;
        if !others.is_empty() {
            changed(others);
        }
        let watch = match watch {
            Ok(watch) => Some(watch),
            Err(error) => {
                if !warned {
                    tracing::warn!(%error, look_seconds = LOOK.as_secs(), "changes of files are not told to this process (inotify): it looks by itself");
                }
                warned = true;
                None
            }
        };
        tokio::select! {
            () = may_have_changed(watch) => {}
            more = files.changed() => if more.is_err() {
                return;
            },
        }
    }
}

/// Returns when it is time to look.
async fn may_have_changed(watch: Option<AsyncFd<OwnedFd>>) {
    let Some(watch) = watch else {
        return sleep(LOOK).await;
    };
    let first = timeout_at(Instant::now() + LOOK, heard(&watch)).await;
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

/// Returns when there were events; they are taken.
async fn heard(watch: &AsyncFd<OwnedFd>) -> io::Result<()> {
    let mut ready = watch.readable().await?;
    let mut read = [0; EVENTS_BYTES];
    while rustix::io::read(watch.get_ref(), &mut read).is_ok_and(|bytes| bytes > 0) {}
    ready.clear_ready();
    Ok(())
}

fn watched(files: &BTreeSet<PathBuf>) -> io::Result<AsyncFd<OwnedFd>> {
    let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    // Not each write: a file is read when its writer has closed it, or when the coarse look finds it.
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
            // It went since, or may not be read: the coarse look is left.
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

#[cfg(test)]
mod tests;

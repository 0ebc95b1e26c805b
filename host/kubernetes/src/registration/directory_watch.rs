//! Notices when names in a directory appear and disappear.
//!
//! It reports that something may have changed; the caller checks what.

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

/// Between two checks without an event: one system call each.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Several events: `struct inotify_event` and a name of at most 255 bytes each (inotify(7)).
const EVENTS_BYTES: usize = 4096;

/// One directory, watched.
#[derive(Debug)]
pub(super) struct DirectoryWatch(Option<AsyncFd<OwnedFd>>);

impl DirectoryWatch {
    /// Watches from now on. It cannot fail: without events there are the periodic checks.
    pub(super) fn begin(directory: &Path) -> Self {
        let events = watched(directory).inspect_err(|error| {
            tracing::warn!(
                directory = %directory.display(), %error, poll_seconds = POLL_INTERVAL.as_secs(),
                "inotify reports no changes of the directory to this process: polling it"
            );
        });
        Self(events.ok())
    }

    /// Returns when it is time to check.
    pub(super) async fn may_have_changed(&self) {
        let Some(events) = &self.0 else {
            return sleep(POLL_INTERVAL).await;
        };
        tokio::select! {
            () = sleep(POLL_INTERVAL) => {}
            ready = events.readable() => {
                let Ok(mut ready) = ready else { return sleep(POLL_INTERVAL).await };
                let mut read = [0; EVENTS_BYTES];
                while rustix::io::read(events.get_ref(), &mut read).is_ok_and(|bytes| bytes > 0) {}
                ready.clear_ready();
            }
        }
    }
}

fn watched(directory: &Path) -> std::io::Result<AsyncFd<OwnedFd>> {
    let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    // An existing name is removed or replaced in these ways only; a new name does not matter.
    let changes = WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    add_watch(&events, directory, changes).map_err(|error| match error {
        Errno::NOSPC => std::io::Error::other("fs.inotify.max_user_watches is used up"),
        error => error.into(),
    })?;
    #[expect(
        deprecated,
        reason = "the successor is unsafe, for types that lie about their descriptor, which OwnedFd does not"
    )]
    AsyncFd::new(events)
}

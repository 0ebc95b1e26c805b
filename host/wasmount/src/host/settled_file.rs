//! Reads a file that a process may be writing: completely, or not at all.
//!
//! The kernel knows who has a file of this machine open. A writer on another machine that pauses for longer is not detected: the content read then is
//! an incomplete component, and is rejected until the next change.

use super::follow::FileState;
use crate::regular_file::{self, Refused};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use wasmount_sys::lease;
use wasmount_versions::Refusal;

/// How long a file must not change. 50 ms: writers on one machine pause for less, and a file that is replaced ten times a second still has
/// moments of rest.
const REST: Duration = Duration::from_millis(50);
/// A file whose last change is at least this old is read without waiting. 2 s: the clocks of a file server and of this machine may differ by
/// that much, if both are kept; on one machine both are the same clock.
const LONG_AT_REST: Duration = Duration::from_secs(2);
/// How long to wait until the file does not change.
const TIMEOUT: Duration = Duration::from_secs(5);

/// All of a component's file, of at most `most` bytes.
pub(super) async fn read(path: &Path, most: u64) -> Result<Vec<u8>, Refusal> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let file = path.to_owned();
        let before = blocking(move || FileState::at(&file)).await?;
        // A missing file is not waited for.
        let at_rest = before.is_older_than(LONG_AT_REST, SystemTime::now());
        if before != FileState::Nothing && !at_rest {
            sleep(REST).await;
        }
        let file = path.to_owned();
        let read = blocking(move || {
            let first = FileState::at(&file);
            let is_complete = at_rest || !has_writer(&file);
            let bytes = regular_file::read(&file, most);
            ([first, FileState::at(&file)], is_complete, bytes)
        });
        let (states, is_complete, bytes) = read.await?;
        if is_complete && states.iter().all(|state| *state == before) {
            return bytes.map_err(|refused| unreadable(refused, path));
        }
        if Instant::now() > until {
            let (rest, limit) = (REST.as_millis(), TIMEOUT.as_secs());
            return Err(Refusal::Source {
                place: path.display().to_string(),
                reason: format!(
                    "it did not stay unchanged for {rest} ms without a writer within {limit} s: it is still being written"
                ),
                passes: true,
            });
        }
    }
}

/// Whether a process has the file open for writing. No if the kernel cannot tell: how long the file has not changed decides then.
fn has_writer(path: &Path) -> bool {
    regular_file::open(path).is_ok_and(|file| lease::has_writer(&file).unwrap_or(false))
}

/// Why the file of a component was not read, as a reason of admission.
pub(super) fn unreadable(refused: Refused, path: &Path) -> Refusal {
    let path = path.to_owned();
    match refused {
        Refused::Unreadable(source) => Refusal::Unreadable { path, source },
        Refused::NotRegular => Refusal::NotAFile { path },
        Refused::TooLarge { most } => Refusal::TooLarge { limit: most },
    }
}

/// Does work that blocks, for an admission.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    spawn_blocking(work).await.map_err(|_| Refusal::Stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test]
    async fn a_stable_file_is_read_and_a_missing_one_fails_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let begun = Instant::now();
        assert!(matches!(
            read(&file, 9).await,
            Err(Refusal::Unreadable { .. })
        ));
        assert!(begun.elapsed() < TIMEOUT);
        fs::write(&file, "whole").unwrap();
        assert_eq!(read(&file, 9).await.unwrap(), b"whole");
        assert!(matches!(
            read(&file, 4).await,
            Err(Refusal::TooLarge { limit: 4 })
        ));
    }

    #[tokio::test]
    async fn a_file_stable_for_long_is_read_at_once_a_new_one_waits() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "whole").unwrap();
        let begun = Instant::now();
        assert_eq!(read(&file, 9).await.unwrap(), b"whole");
        assert!(begun.elapsed() >= REST);
        sleep(LONG_AT_REST).await;
        let mut fastest = TIMEOUT;
        for _ in 0..20 {
            let begun = Instant::now();
            assert_eq!(read(&file, 9).await.unwrap(), b"whole");
            fastest = fastest.min(begun.elapsed());
        }
        assert!(fastest < REST, "{fastest:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_that_is_being_written_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = fs::File::create(&path).unwrap();
        let writing = std::thread::spawn(move || {
            let end = std::time::Instant::now() + Duration::from_millis(500);
            let mut written = 0;
            while std::time::Instant::now() < end {
                written += file.write(b"part").unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            written
        });
        let bytes = read(&path, 1 << 20).await.unwrap();
        assert_eq!(bytes.len(), writing.join().unwrap());
    }

    #[tokio::test]
    async fn a_writer_that_pauses_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(b"first").unwrap();
        let writing = async {
            sleep(10 * REST).await;
            file.write_all(b" second").unwrap();
            drop(file);
        };
        let (bytes, ()) = tokio::join!(read(&path, 1 << 20), writing);
        assert_eq!(bytes.unwrap(), b"first second");
    }

    #[tokio::test]
    async fn a_file_kept_open_is_read_once_long_at_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(b"whole").unwrap();
        assert_eq!(read(&path, 1 << 20).await.unwrap(), b"whole");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_that_never_rests_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = fs::File::create(&path).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let writing = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                file.write_all(b"part").unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let read = read(&path, 1 << 20).await;
        stop.store(true, Ordering::Relaxed);
        writing.join().unwrap();
        assert!(matches!(read, Err(Refusal::Source { passes: true, .. })));
    }
}

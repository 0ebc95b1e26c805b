//! Waits for resources that another holder releases within a moment: locks on directories, devices, images.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long another holder may take to release a resource. 2 s: the kernel unbinds a device within milliseconds, udev keeps it a little longer.
const LET_GO_WITHIN: Duration = Duration::from_secs(2);
/// Interval between two attempts.
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// Repeats an attempt until it gives a result or another holder had 2 s to release the resource. A child process has a copy of every descriptor of
/// the host between its start and its exec.
pub(crate) fn retry<T, E>(
    mut attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let deadline = Instant::now() + LET_GO_WITHIN;
    loop {
        let answer = attempt()?;
        if answer.is_some() || Instant::now() >= deadline {
            return Ok(answer);
        }
        sleep(ASKED_EVERY);
    }
}

/// Locks an open directory for the lifetime of its descriptor. `false`: another host holds the lock. The kernel releases the lock however the host
/// ends.
pub(crate) fn lock(directory: impl AsFd) -> Result<bool, Errno> {
    let locked = retry(
        || match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(())),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno),
        },
    )?;
    Ok(locked.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_locked_directory_is_taken_when_its_owner_ends() {
        let directory = tempfile::tempdir().unwrap();
        let open = || File::open(directory.path()).unwrap();
        let first = open();
        assert_eq!(lock(&first), Ok(true));
        let second = std::thread::spawn({
            let second = open();
            move || lock(&second)
        });
        sleep(ASKED_EVERY * 2);
        drop(first);
        assert_eq!(second.join().unwrap(), Ok(true));
    }

    #[test]
    fn another_is_refused_while_the_first_keeps_it() {
        let directory = tempfile::tempdir().unwrap();
        let open = || File::open(directory.path()).unwrap();
        let first = open();
        assert_eq!(lock(&first), Ok(true));
        assert_eq!(lock(open()), Ok(false));
    }
}

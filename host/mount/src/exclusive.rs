//! One host at a time: a lock on a directory that the kernel gives back however the host ends.
//!
//! It waits for a moment: a host that stops gives its data directory to the next one just before it lets go of the rest, and a child that is being
//! started has a copy of every descriptor until it runs its own program. It must not know what lies in the directory.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long another holder may take to let go.
const LET_GO_WITHIN: Duration = Duration::from_secs(2);
/// How often it is asked whether it has.
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// Locks an open directory for as long as its descriptor lives; false: another host has it and keeps it.
pub(crate) fn lock(directory: impl AsFd) -> Result<bool, Errno> {
    let deadline = Instant::now() + LET_GO_WITHIN;
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(ASKED_EVERY),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
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

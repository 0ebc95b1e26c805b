//! Exclusive use: claims of one process, and waiting for resources that another holder releases within a moment (locks on directories, devices,
//! images).

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wasmount_core::mutex;

/// How long another holder may take to release a resource. 2 s: the kernel unbinds a device within milliseconds, udev keeps it a little longer.
const RELEASED_WITHIN: Duration = Duration::from_secs(2);
/// Interval between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Keys that calls of this process have claimed. It is a list, and no lock is held meanwhile: a call that hangs blocks one key and not all.
#[derive(Debug)]
pub(crate) struct Claims<K>(Mutex<Vec<K>>);

/// The exclusive right to a key, until it is dropped.
pub(crate) struct Claim<'c, K: PartialEq> {
    claims: &'c Claims<K>,
    key: K,
}

impl<K: PartialEq + Clone> Claims<K> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// `None`: another call has it.
    pub(crate) fn claim(&self, key: K) -> Option<Claim<'_, K>> {
        let mut claimed = mutex::lock(&self.0);
        if claimed.contains(&key) {
            return None;
        }
        claimed.push(key.clone());
        Some(Claim { claims: self, key })
    }
}

impl<K: PartialEq> Drop for Claim<'_, K> {
    fn drop(&mut self) {
        mutex::lock(&self.claims.0).retain(|it| *it != self.key);
    }
}

/// Repeats an attempt until it gives a result or another holder had 2 s to release the resource. A child process has a copy of every descriptor of
/// the host between its start and its exec.
pub(crate) fn retry<T, E>(
    mut attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let deadline = Instant::now() + RELEASED_WITHIN;
    loop {
        let answer = attempt()?;
        if answer.is_some() || Instant::now() >= deadline {
            return Ok(answer);
        }
        sleep(RETRY_INTERVAL);
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
    fn a_key_is_claimed_by_one_call_at_a_time() {
        let claims = Claims::new();
        let claim = claims.claim(1);
        assert!(claim.is_some());
        assert!(claims.claim(1).is_none());
        assert!(claims.claim(2).is_some());
        drop(claim);
        assert!(claims.claim(1).is_some());
    }

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
        sleep(RETRY_INTERVAL * 2);
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

//! What a tree looks like, entry by entry, as one digest: two that are equal say that nothing in it changed in between.
//!
//! It goes by change times (`st_ctime`): a pod can set the time of the last write back, and not this one. However large the tree, it keeps nothing
//! but the digest. It copies nothing, and knows nothing of pools.

use crate::confine::open_confined;
use crate::pool::copying::{CopyError, DEPTH};
use crate::pool::handle::DIRECTORY;
use crate::pool::still::{TICK, is_fresh};
use rustix::fs::{AtFlags, Dir, FileType, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::sleep;

/// How often a census waits in all until a change that follows must show. 50 times are a second: a tree that somebody has just finished
/// writing takes one or two, one that comes near is being written to all the time.
const WAITS: usize = 50;

/// A census under way.
#[derive(Debug, Default)]
pub(super) struct TreeFingerprint {
    digest: Sha256,
    waits: usize,
}

/// What it comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Count([u8; 32]);

impl TreeFingerprint {
    /// Takes down a directory's own state, to be called before it is read.
    pub(super) fn top(&mut self, directory: BorrowedFd<'_>) -> Result<Statx, CopyError> {
        self.settled(c"", || {
            rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
        })
    }

    /// Takes down an entry, to be called before it is read. It waits until whatever is done to it afterwards must show.
    pub(super) fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<Statx, CopyError> {
        self.settled(name, || look(directory, name))
    }

    /// The digest of all that was taken down.
    pub(super) fn end(self) -> Count {
        Count(self.digest.finalize().into())
    }

    fn settled(
        &mut self,
        name: &CStr,
        look: impl Fn() -> Result<Statx, Errno>,
    ) -> Result<Statx, CopyError> {
        loop {
            let status = look().map_err(changed)?;
            let StatxTimestamp {
                tv_sec, tv_nsec, ..
            } = status.stx_ctime;
            if !is_fresh(tv_sec, tv_nsec) {
                self.note(name, &status);
                return Ok(status);
            }
            if self.waits == WAITS {
                return Err(CopyError::Written);
            }
            self.waits += 1;
            sleep(TICK);
        }
    }

    fn note(&mut self, name: &CStr, status: &Statx) {
        // With its end, so that no two lists of names are alike.
        self.digest.update(name.to_bytes_with_nul());
        let StatxTimestamp {
            tv_sec, tv_nsec, ..
        } = status.stx_ctime;
        for number in [status.stx_ino, status.stx_size, tv_sec.cast_unsigned()] {
            self.digest.update(number.to_le_bytes());
        }
        self.digest.update(tv_nsec.to_le_bytes());
        self.digest.update(status.stx_mode.to_le_bytes());
    }

    /// Counts what lies in a directory, so many below the top. What is deeper now than anything that is copied was moved there meanwhile: no
    /// pod may end the host by a tree that a thread's stack is too small for.
    fn directory(&mut self, directory: BorrowedFd<'_>, depth: usize) -> Result<(), CopyError> {
        if depth > DEPTH {
            return Err(CopyError::Written);
        }
        for entry in Dir::read_from(directory).map_err(changed)? {
            let entry = entry.map_err(changed)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let status = look(directory, name).map_err(changed)?;
            self.note(name, &status);
            if FileType::from_raw_mode(status.stx_mode.into()) == FileType::Directory {
                let inner = open_confined(directory, name, DIRECTORY).map_err(changed)?;
                self.directory(inner.as_fd(), depth + 1)?;
            }
        }
        Ok(())
    }
}

/// What a tree looks like now.
pub(super) fn count(top: BorrowedFd<'_>) -> Result<Count, CopyError> {
    let mut census = TreeFingerprint::default();
    let status = rustix::fs::statx(top, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    census.note(c"", &status.map_err(changed)?);
    census.directory(top, 0)?;
    Ok(census.end())
}

/// What an error says of an entry that was there a moment ago, and not a link.
pub(super) fn changed(errno: Errno) -> CopyError {
    match errno {
        Errno::NOENT | Errno::STALE | Errno::NOTDIR | Errno::LOOP => CopyError::Written,
        Errno::XDEV => CopyError::Mount,
        errno => CopyError::Read(errno),
    }
}

/// What an entry is like; a link is not followed.
pub(super) fn look(directory: BorrowedFd<'_>, name: &CStr) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, mkdirat, openat};
    use std::os::fd::OwnedFd;

    fn so_deep(directories: usize) -> Result<Count, CopyError> {
        let top = tempfile::tempdir().unwrap();
        let open = |at: &OwnedFd| openat(at, c"a", DIRECTORY, Mode::empty()).unwrap();
        let mut at = OwnedFd::from(std::fs::File::open(top.path()).unwrap());
        for _ in 0..directories {
            mkdirat(&at, c"a", Mode::RWXU).unwrap();
            at = open(&at);
        }
        count(OwnedFd::from(std::fs::File::open(top.path()).unwrap()).as_fd())
    }

    #[test]
    fn a_tree_grown_too_deep_has_changed() {
        assert!(so_deep(DEPTH).is_ok());
        assert_eq!(so_deep(DEPTH + 1), Err(CopyError::Written));
    }
}

//! Verifies that files and trees are copied as of one moment. The kernel shares the blocks of one file atomically. Bytes that are read one after
//! another, and files that are shared one after another, are consistent only if nothing was written meanwhile, so each file is checked before the
//! first byte is read and after the last.
//!
//! The check uses the change time (`st_ctime`): a pod can reset the time of the last write, but not this one. A loop device writes through its file,
//! so writes to a mounted volume change it too.

use super::CopyError;
use crate::pool::directory::file_type;
use crate::walk::walk;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha256};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::thread::sleep;
use std::time::Duration;

/// Two writes within this interval may leave the same time: two ticks of the slowest kernel clock (`CONFIG_HZ_100`). Since Linux 6.13 the times are
/// fine enough.
const TICK: Duration = Duration::from_millis(20);
/// How many ticks a copy of images waits before it starts, until a later write must change the time. If that is not sufficient, the image is written
/// all the time.
pub(super) const FILE_WAITS: usize = 5;
/// The same for a tree. 50 ticks are a second: a tree that was completed just now takes one or two; one that takes almost 50 is being written all the
/// time.
const TREE_WAITS: usize = 50;

/// The state of a file before its copy.
#[derive(Debug)]
pub(super) struct Unchanged<'f> {
    file: BorrowedFd<'f>,
    version: [u64; 3],
}

/// The state of all entries of a tree, as one digest. It keeps nothing else, however large the tree is.
#[derive(Debug)]
pub(super) struct TreeFingerprint {
    digest: Sha256,
    waits: usize,
}

impl<'f> Unchanged<'f> {
    /// Records the state before the first byte is read; `waits` is the number of ticks left.
    pub(super) fn begin(file: BorrowedFd<'f>, waits: &mut usize) -> Result<Self, CopyError> {
        let status = settled(waits, || stat(file, c""))?;
        let version = version(&status);
        Ok(Self { file, version })
    }

    /// Fails if the file was written to since.
    pub(super) fn check(&self) -> Result<(), CopyError> {
        let now = stat(self.file, c"").map_err(changed)?;
        match version(&now) == self.version {
            true => Ok(()),
            false => Err(CopyError::Written),
        }
    }
}

impl TreeFingerprint {
    pub(super) fn new() -> Self {
        Self {
            digest: Sha256::new(),
            waits: TREE_WAITS,
        }
    }

    /// Records an entry before it is read; an empty name means the directory itself. It waits until any later change must be detected.
    pub(super) fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<Statx, CopyError> {
        let status = settled(&mut self.waits, || stat(directory, name))?;
        self.note(name, &status);
        Ok(status)
    }

    /// The digest of all recorded entries.
    pub(super) fn end(self) -> [u8; 32] {
        self.digest.finalize().into()
    }

    fn note(&mut self, name: &CStr, status: &Statx) {
        // The terminating NUL is hashed too, so that different lists of names have different digests.
        self.digest.update(name.to_bytes_with_nul());
        self.digest.update(status.stx_ino.to_le_bytes());
        for number in version(status) {
            self.digest.update(number.to_le_bytes());
        }
        self.digest.update(status.stx_mode.to_le_bytes());
    }
}

/// The digest of the current state of a tree.
pub(super) fn digest(top: BorrowedFd<'_>) -> Result<[u8; 32], CopyError> {
    let mut fingerprint = TreeFingerprint::new();
    fingerprint.note(c"", &stat(top, c"").map_err(changed)?);
    let note = |directory: BorrowedFd<'_>, name: &CStr| {
        let status = stat(directory, name)?;
        fingerprint.note(name, &status);
        Ok(file_type(&status) == FileType::Directory)
    };
    walk(top, note).map_err(|stopped| changed(stopped.errno))?;
    Ok(fingerprint.end())
}

/// Interprets an error of an entry that existed a moment ago and was not a link.
pub(super) fn changed(errno: Errno) -> CopyError {
    match errno {
        Errno::NOENT | Errno::STALE | Errno::NOTDIR | Errno::LOOP => CopyError::Written,
        Errno::XDEV => CopyError::Mount,
        errno => CopyError::Read(errno),
    }
}

/// The state of an entry, or for an empty name of the descriptor itself. A link is not followed.
fn stat(directory: BorrowedFd<'_>, name: &CStr) -> Result<Statx, Errno> {
    // A client of NFS would answer from its memory, which may be a minute old.
    let flags = AtFlags::SYMLINK_NOFOLLOW
        | AtFlags::NO_AUTOMOUNT
        | AtFlags::EMPTY_PATH
        | AtFlags::STATX_FORCE_SYNC;
    rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS)
}

/// Repeats the check until a later change must be detected.
fn settled(waits: &mut usize, stat: impl Fn() -> Result<Statx, Errno>) -> Result<Statx, CopyError> {
    loop {
        let status = stat().map_err(changed)?;
        if !is_fresh(&status) {
            return Ok(status);
        }
        *waits = waits.checked_sub(1).ok_or(CopyError::Written)?;
        sleep(TICK);
    }
}

/// Whether a change right now may leave the same time.
fn is_fresh(status: &Statx) -> bool {
    let now = clock_gettime(ClockId::Realtime);
    let nanoseconds_of =
        |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
    let changed = status.stx_ctime;
    let age = nanoseconds_of(now.tv_sec, now.tv_nsec)
        - nanoseconds_of(changed.tv_sec, changed.tv_nsec.into());
    age.unsigned_abs() < TICK.as_nanos()
}

/// Size, and seconds and nanoseconds of the last change.
fn version(status: &Statx) -> [u64; 3] {
    let changed = status.stx_ctime;
    [
        status.stx_size,
        changed.tv_sec.cast_unsigned(),
        changed.tv_nsec.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::DIRECTORY;
    use rustix::fs::{Mode, mkdirat, openat};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::fs::FileExt;
    use std::time::Instant;

    /// How long a busy machine may not run a thread.
    const LONGEST: Duration = Duration::from_secs(30);

    fn written() -> [File; 3] {
        [(); 3].map(|()| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"a").unwrap();
            file
        })
    }

    fn begin(files: &[File; 3]) -> [Unchanged<'_>; 3] {
        let mut waits = FILE_WAITS;
        files
            .each_ref()
            .map(|file| Unchanged::begin(file.as_fd(), &mut waits).unwrap())
    }

    #[test]
    fn unwritten_files_are_stable() {
        let files = written();
        for file in begin(&files) {
            assert_eq!([file.check(), file.check()], [Ok(()), Ok(())]);
        }
    }

    #[test]
    fn a_write_is_seen_however_soon_it_comes_and_where() {
        for round in 0..21 {
            let files = written();
            let before = begin(&files);
            files[round % 3].write_all_at(b"b", 0).unwrap();
            for (index, file) in before.iter().enumerate() {
                let seen = file.check() == Err(CopyError::Written);
                assert_eq!(seen, index == round % 3, "{round}");
            }
        }
    }

    #[test]
    fn a_file_written_to_all_the_time_is_rejected() {
        let file = tempfile::tempfile().unwrap();
        let is_ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_ended.load(std::sync::atomic::Ordering::Relaxed) {
                    file.write_all_at(b"b", 0).unwrap();
                }
            });
            while file.metadata().unwrap().len() == 0 {}
            // On a busy machine the writer may pause for longer than a tick, any number of times.
            let start = Instant::now();
            let mut is_rejected = false;
            while !is_rejected && start.elapsed() < LONGEST {
                let begun = Unchanged::begin(file.as_fd(), &mut 1);
                is_rejected = begun.map(drop) == Err(CopyError::Written);
            }
            is_ended.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(is_rejected);
        });
    }

    #[test]
    fn a_tree_grown_deeper_has_another_fingerprint() {
        let top = tempfile::tempdir().unwrap();
        let top = OwnedFd::from(File::open(top.path()).unwrap());
        let mut at = top.try_clone().unwrap();
        let mut seen = Vec::new();
        for _ in 0..300 {
            seen.push(digest(top.as_fd()).unwrap());
            mkdirat(&at, c"a", Mode::RWXU).unwrap();
            at = openat(&at, c"a", DIRECTORY, Mode::empty()).unwrap();
        }
        assert!(seen.array_windows().all(|[one, next]| one != next));
    }
}

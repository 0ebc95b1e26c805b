//! Tells one state of a file from another without reading it.

use rustix::fs::{CWD, StatxFlags, statx};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::host) enum Look {
    /// Nothing, or nothing that can be looked at.
    Nothing,
    /// A file of this identity, size and time of last change.
    File {
        device: (u32, u32),
        inode: u64,
        bytes: u64,
        /// Of the content and of the inode: the first can be set back by `cp -p`, the second cannot.
        changed: [(i64, u32); 2],
    },
}

impl Look {
    /// Now. Links are followed.
    pub(in crate::host) fn at(path: &Path) -> Self {
        let wanted = StatxFlags::BASIC_STATS;
        let Ok(status) = statx(CWD, path, rustix::fs::AtFlags::empty(), wanted) else {
            return Self::Nothing;
        };
        Self::File {
            device: (status.stx_dev_major, status.stx_dev_minor),
            inode: status.stx_ino,
            bytes: status.stx_size,
            changed: [
                (status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec),
                (status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec),
            ],
        }
    }

    /// Whether the last change of the file was at least so long before now, by the clock that its file system keeps. A time to come is no such.
    pub(in crate::host) fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let Self::File { changed, .. } = self else {
            return false;
        };
        changed.iter().all(|(seconds, nanoseconds)| {
            let seconds = u64::try_from(*seconds).unwrap_or_default();
            let changed = UNIX_EPOCH + Duration::new(seconds, *nanoseconds);
            now.duration_since(changed).is_ok_and(|since| since >= age)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_looks_the_same_until_something_is_done_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        assert_eq!(Look::at(&file), Look::Nothing);
        fs::write(&file, "1").unwrap();
        let first = Look::at(&file);
        assert_eq!(Look::at(&file), first);
        // Of the same content, and perhaps of the same tick of the clock: another inode.
        let other = folder.path().join("b");
        fs::write(&other, "1").unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(Look::at(&file), first);
    }

    #[test]
    fn a_file_is_as_old_as_its_last_change_whatever_cp_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let age = Duration::from_secs(2);
        let soon = SystemTime::now() + Duration::from_secs(10);
        assert!(!Look::at(&file).is_older_than(age, soon), "there is none");
        fs::write(&file, "1").unwrap();
        let look = Look::at(&file);
        assert!(look.is_older_than(age, soon));
        assert!(!look.is_older_than(age, SystemTime::now()));
        assert!(!look.is_older_than(Duration::ZERO, UNIX_EPOCH), "to come");
        // `cp -p` sets the time of the content back, and cannot that of the inode.
        let opened = fs::File::options().write(true).open(&file).unwrap();
        opened.set_modified(UNIX_EPOCH).unwrap();
        assert!(!Look::at(&file).is_older_than(age, SystemTime::now()));
    }
}

//! Tells one state of a file from another without reading it. Apart because "changed" must mean the same wherever it is asked.

use rustix::fs::{CWD, StatxFlags, statx};
use std::path::Path;

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
}

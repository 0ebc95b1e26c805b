//! Files with several names, while their tree is copied. The list of them is a folder beside the copy, in which each has one more name, by the number
//! of its inode in the source. So it takes no memory, and what a killed host leaves of it is cleared with all that is unfinished.

use crate::confine::open_confined;
use crate::pool::copying::CopyError;
use crate::pool::handle::DIRECTORY;
use rustix::fs::{AtFlags, Dir, Mode, Statx, StatxFlags};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Removed when it is dropped.
pub(super) struct Links<'a> {
    parent: &'a OwnedFd,
    name: String,
    /// Made for the first of them.
    folder: OnceCell<OwnedFd>,
}

impl<'a> Links<'a> {
    /// Those of the copy that is made under a name.
    pub(super) fn new(parent: &'a OwnedFd, copy: &str) -> Self {
        Self {
            parent,
            name: format!("{copy}-links"),
            folder: OnceCell::new(),
        }
    }

    /// Gives a name to what was copied of a file already. False: nothing was yet.
    pub(super) fn give(
        &self,
        source: &Statx,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<bool, CopyError> {
        let Some(folder) = self.folder.get() else {
            return Ok(false);
        };
        let key = key(source);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let given = match rustix::fs::statx(folder, &key, flags, StatxFlags::NLINK) {
            // Without the folder's own, and with this one.
            Ok(copy) => copy.stx_nlink,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(CopyError::Write(errno)),
        };
        // The last one takes the place of the folder's: the source may have as many names as the file system allows.
        let given = match given < source.stx_nlink {
            true => rustix::fs::linkat(folder, &key, to, name, AtFlags::empty()),
            false => rustix::fs::renameat(folder, &key, to, name),
        };
        given.map(|()| true).map_err(CopyError::Write)
    }

    /// Remembers a file with several names that was copied.
    pub(super) fn keep(
        &self,
        source: &Statx,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<(), CopyError> {
        self.folder()
            .and_then(|folder| rustix::fs::linkat(to, name, folder, key(source), AtFlags::empty()))
            .map_err(CopyError::Write)
    }

    fn folder(&self) -> Result<&OwnedFd, Errno> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder);
        }
        rustix::fs::mkdirat(self.parent, &self.name, Mode::RWXU)?;
        let folder = open_confined(self.parent, self.name.as_str(), DIRECTORY)?;
        Ok(self.folder.get_or_init(|| folder))
    }
}

impl Drop for Links<'_> {
    /// What cannot be removed now is cleared at the next start.
    fn drop(&mut self) {
        let Some(folder) = self.folder.get() else {
            return;
        };
        for entry in Dir::read_from(folder).into_iter().flatten().flatten() {
            let _ = rustix::fs::unlinkat(folder, entry.file_name(), AtFlags::empty());
        }
        let removed = rustix::fs::unlinkat(self.parent, &self.name, AtFlags::REMOVEDIR);
        if let Err(errno) = removed {
            tracing::warn!(%errno, "the hard link list of a copy remains until the next start");
        }
    }
}

fn key(source: &Statx) -> String {
    format!("{:x}", source.stx_ino)
}

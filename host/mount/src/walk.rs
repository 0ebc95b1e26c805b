//! Walks content that a pod wrote, of any width and depth: by descriptor, without following links or crossing mounts, depth first.
//!
//! Its memory does not grow with the tree: for each level of a path, which `PATH_MAX` bounds, it keeps the position in its directory, and for the
//! deepest [`OPEN`] levels the open directories, whose buffers of at most 50 KiB take 3 MiB. This module does not know what is done to an entry.

use crate::confine::{DIRECTORY, open_confined};
use rustix::fs::Dir;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

/// Maximum number of open directories. 64: real trees are less deep; a higher level is opened again by its path.
const OPEN: usize = 64;

/// Where a walk failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// The directory, from the root of the walk.
    pub(crate) path: Vec<u8>,
    pub(crate) errno: Errno,
}

/// A partly visited directory.
#[derive(Default)]
struct Level {
    path_bytes: usize,
    /// The position that `seekdir` takes.
    position: i64,
    open: Option<Dir>,
}

/// Visits all entries below a root, but not the root itself. The visitor returns whether the entry is a directory to enter now. Entries that are
/// removed or replaced meanwhile are skipped; a path too long for the kernel is `ENAMETOOLONG`.
pub(crate) fn walk(
    root: impl AsFd,
    mut visit: impl FnMut(BorrowedFd<'_>, &CStr) -> Result<bool, Errno>,
) -> Result<(), Stopped> {
    let mut path = b".".to_vec();
    let mut levels = vec![Level {
        path_bytes: path.len(),
        ..Level::default()
    }];
    while let Some(level) = levels.last_mut() {
        path.truncate(level.path_bytes);
        match level.visit_on(root.as_fd(), &path, &mut visit) {
            Ok(Some(name)) => {
                path.push(b'/');
                path.extend_from_slice(name.to_bytes());
                levels.push(Level {
                    path_bytes: path.len(),
                    ..Level::default()
                });
                let above = levels.len().checked_sub(OPEN + 1);
                if let Some(level) = above.and_then(|above| levels.get_mut(above)) {
                    level.open = None;
                }
            }
            Ok(None) => drop(levels.pop()),
            Err(errno) => return Err(Stopped { path, errno }),
        }
    }
    Ok(())
}

/// `None`: the entry was removed or replaced meanwhile, or is the mount point of another mount, which is not part of this tree.
pub(crate) fn if_there<T>(opened: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl Level {
    /// Visits entries up to the next directory to enter, or to the end.
    fn visit_on(
        &mut self,
        root: BorrowedFd<'_>,
        path: &[u8],
        visit: &mut impl FnMut(BorrowedFd<'_>, &CStr) -> Result<bool, Errno>,
    ) -> Result<Option<CString>, Errno> {
        let directory = match &mut self.open {
            Some(open) => open,
            None => {
                let Some(opened) = if_there(open_confined(root, path, DIRECTORY))? else {
                    return Ok(None);
                };
                let mut opened = Dir::new(opened)?;
                opened.seek(self.position)?;
                self.open.insert(opened)
            }
        };
        while let Some(entry) = directory.read() {
            let entry = entry?;
            self.position = entry.offset();
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if visit(directory.fd()?, name)? {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }
}

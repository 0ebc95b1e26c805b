//! A walk over what a pod wrote, as wide and as deep as it liked: by descriptor, through no link, onto no other mount, depth first.
//!
//! Its memory does not grow with the tree: for each level of a path, which `PATH_MAX` bounds, it keeps where its directory was left, and of
//! the deepest [`OPEN`] the open directories, whose buffers of at most 50 KiB take 3 MiB. It must not know what is done to an entry.

use crate::confine::open_confined;
use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

/// Directories that are open at a time. 64: real trees are less deep; a level above is opened again by its path.
const OPEN: usize = 64;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Where a walk failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// The directory, from the root of the walk.
    pub(crate) path: Vec<u8>,
    pub(crate) errno: Errno,
}

/// What a visitor says of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is a directory, and what lies in it is visited now.
    Enter,
    Pass,
}

/// A directory whose entries were visited in part.
#[derive(Default)]
struct Level {
    path_bytes: usize,
    /// As `seekdir` takes it.
    position: i64,
    open: Option<Dir>,
}

/// Visits all that lies below a root, which is not visited itself. What is gone or was replaced meanwhile is passed over; a path too long for
/// the kernel is `ENAMETOOLONG`.
pub(crate) fn walk(
    root: impl AsFd,
    mut visit: impl FnMut(BorrowedFd<'_>, &CStr) -> Result<Next, Errno>,
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

/// `None`: it is gone or was replaced just now, or another mount lies on it, which is not of this tree.
pub(crate) fn if_there<T>(opened: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl Level {
    /// Visits entries up to the next directory to be entered, or to the end.
    fn visit_on(
        &mut self,
        root: BorrowedFd<'_>,
        path: &[u8],
        visit: &mut impl FnMut(BorrowedFd<'_>, &CStr) -> Result<Next, Errno>,
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
            if visit(directory.fd()?, name)? == Next::Enter {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }
}

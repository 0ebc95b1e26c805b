//! The name of a socket in the file system, and whether it still leads to us.

use rustix::fs::{AtFlags, CWD, Stat, statat, unlink};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The file of a socket that was made here. Removed when dropped, if it still is that one.
#[derive(Debug)]
pub struct SocketFile {
    pub(crate) path: PathBuf,
    device: u64,
    inode: u64,
}

/// What lies under the name of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketState {
    /// The file that was made here.
    Ours,
    /// Nothing: somebody removed it, or its directory.
    Gone,
    /// Another file.
    Anothers,
}

impl SocketFile {
    pub(crate) fn of(path: &Path) -> rustix::io::Result<Self> {
        let Stat { st_dev, st_ino, .. } = look(path)?;
        Ok(Self {
            path: path.to_owned(),
            device: st_dev,
            inode: st_ino,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What lies under its name now. The inode of a socket that is still open is not used again (unix(7) binds to it), so two that are equal
    /// are one.
    pub fn standing(&self) -> std::io::Result<SocketState> {
        match look(&self.path) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == (self.device, self.inode) => {
                Ok(SocketState::Ours)
            }
            Ok(_) => Ok(SocketState::Anothers),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(SocketState::Gone),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = self
            .standing()
            .is_ok_and(|standing| standing == SocketState::Ours);
        if ours && let Err(error) = unlink(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "socket not removed");
        }
    }
}

pub(crate) fn look(path: &Path) -> rustix::io::Result<Stat> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

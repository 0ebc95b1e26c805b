//! The name of a socket in the file system: whether it still leads to us, and what a killed process left there.
//!
//! Only a connection tells the latter: the kernel refuses it (ECONNREFUSED) when no process has the socket open any more, and for no other reason.

use crate::SocketError;
use crate::error::system;
use rustix::fs::{AtFlags, CWD, FileType, Stat, statat, unlink};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::fd::OwnedFd;
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

fn look(path: &Path) -> rustix::io::Result<Stat> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// Removes what a killed process left, and only that; whether there was something. A live socket, and whatever is no socket, is an error.
pub fn remove_stale(path: &Path) -> Result<bool, SocketError> {
    let stat = match look(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(system("look at", path)(error)),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(SocketError::NotASocket {
            path: path.to_owned(),
        });
    }
    match try_connect(path) {
        // Full backlog: somebody is there, only slow. Another type of socket: somebody else is.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketError::Live {
            path: path.to_owned(),
        }),
        Err(Errno::CONNREFUSED) => match unlink(path) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(system("remove the stale socket", path)(error)),
        },
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(system("ask who serves on", path)(error)),
    }
}

/// Of either type: a wrong guess is answered as such (EPROTOTYPE), and only where somebody is.
fn try_connect(path: &Path) -> rustix::io::Result<()> {
    connect(
        unix_socket(SocketType::STREAM)?,
        &SocketAddrUnix::new(path)?,
    )
}

/// A socket that does not wait, and that no child inherits.
pub(crate) fn unix_socket(kind: SocketType) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, kind, flags, None)
}

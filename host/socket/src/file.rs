//! The file of a socket: whether it is still the one that this process created, and whether a killed process left it.
//!
//! Only a connection attempt detects the latter: the kernel refuses it (ECONNREFUSED) when no process has the socket open any more, and for no other
//! reason.

use crate::SocketError;
use crate::error::system;
use rustix::fs::{AtFlags, CWD, FileType, Stat, statat, unlink};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The file of a socket that this process created. Removed when dropped, if it is still that file.
#[derive(Debug)]
pub struct SocketFile {
    pub(crate) path: PathBuf,
    device: u64,
    inode: u64,
}

/// The file at the path of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketState {
    /// The file that this process created.
    Ours,
    /// None: the file or its directory was removed.
    Gone,
    /// Another file.
    Anothers,
}

impl SocketFile {
    pub(crate) fn of(path: &Path) -> rustix::io::Result<Self> {
        let Stat { st_dev, st_ino, .. } = lstat(path)?;
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

    /// The file at its path now. The kernel does not reuse the inode of a socket that is still open (unix(7) binds to it), so equal inodes mean the
    /// same file.
    pub fn state(&self) -> std::io::Result<SocketState> {
        match lstat(&self.path) {
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
        let ours = self.state().is_ok_and(|state| state == SocketState::Ours);
        if ours && let Err(error) = unlink(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "socket not removed");
        }
    }
}

fn lstat(path: &Path) -> rustix::io::Result<Stat> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// Removes the socket of a killed process, and nothing else; returns whether there was one. A live socket, and a file that is not a socket, is an
/// error.
pub fn remove_stale(path: &Path) -> Result<bool, SocketError> {
    let stat = match lstat(path) {
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
        // Full backlog: a slow process serves it. Another type of socket: another process serves it.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketError::Live {
            path: path.to_owned(),
        }),
        Err(Errno::CONNREFUSED) => match unlink(path) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(system("remove the stale socket", path)(error)),
        },
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(system("check for a process at", path)(error)),
    }
}

/// Works for every type of socket: a wrong type gives an error (EPROTOTYPE), but only if a process serves the socket.
fn try_connect(path: &Path) -> rustix::io::Result<()> {
    connect(stream_socket()?, &SocketAddrUnix::new(path)?)
}

/// A non-blocking stream socket that child processes do not inherit.
pub(crate) fn stream_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

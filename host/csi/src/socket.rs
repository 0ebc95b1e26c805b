//! A Unix socket that is ours alone: how it comes into being and how it goes. Apart because both are full of traps that have nothing to do
//! with gRPC. It does not know what is served on it.
//!
//! It appears under its name whole: private from its first moment and already listening. It never takes another process's place, and at the
//! end removes only the very file that it made (a successor may have taken the name: its socket must stay).
//!
//! Everything here is a few system calls on a local directory, made at start and at the end.

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, RenameFlags, Stat, fchmod, renameat_with, statat, unlink,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Longest path of a Unix socket in bytes: `sun_path` has 108, the last one is NUL.
pub const SOCKET_PATH_BYTES: usize = 107;

/// Connections that may wait to be accepted. kubelet opens one for every call; the kernel lowers this to its own `somaxconn`.
const BACKLOG: i32 = 1024;

/// Why a socket could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Refused before anything is touched.
    #[error(
        "socket path {path} is {length} bytes long, the system takes {SOCKET_PATH_BYTES}: choose a shorter directory"
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// Has no name at its end.
    #[error("{path} cannot be the path of a socket: it does not end in a file name")]
    NoFileName {
        /// The path.
        path: PathBuf,
    },
    /// Something else lies there; it is left alone.
    #[error("{path} is not a socket: remove it, or choose another directory")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Somebody accepts connections there.
    #[error("another process serves on {path}: stop it first")]
    Live {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("could not {operation} {path}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// Serving ended by itself.
    #[error("serving on {path} ended")]
    Serving {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

/// A socket that listens under its name, mode 0600. Removed when dropped.
#[derive(Debug)]
pub struct BoundSocket {
    listener: OwnedFd,
    file: SocketFile,
}

/// The name in the file system.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl BoundSocket {
    /// Binds. A stale socket of that name is removed; a live one, and whatever is no socket, is an error. The directory must exist.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let length = path.as_os_str().len();
        if length > SOCKET_PATH_BYTES {
            return Err(SocketError::PathTooLong {
                path: path.to_owned(),
                length,
            });
        }
        let hidden = hidden_name(path)?;
        clear(path)?;
        clear(&hidden)?;

        let listener = stream_socket().map_err(system("make a socket for", path))?;
        // Linux gives the file the mode of the descriptor (unix_bind), so it is private without a moment of wider access and without
        // touching the process's umask.
        fchmod(&listener, Mode::RUSR | Mode::WUSR)
            .map_err(system("make private the socket for", path))?;
        let address = SocketAddrUnix::new(&hidden).map_err(system("name the socket", &hidden))?;
        bind(&listener, &address).map_err(system("bind", &hidden))?;
        let mut file = SocketFile::of(&hidden).map_err(system("look at", &hidden))?;
        listen(&listener, BACKLOG).map_err(system("listen on", &hidden))?;
        renameat_with(CWD, &hidden, CWD, path, RenameFlags::NOREPLACE).map_err(
            |error| match error {
                // Between the look and now.
                Errno::EXIST => SocketError::Live {
                    path: path.to_owned(),
                },
                error => system("put in place", path)(error),
            },
        )?;
        path.clone_into(&mut file.path);
        Ok(Self { listener, file })
    }

    /// For tokio, within its runtime.
    pub(crate) fn listening(self) -> Result<(UnixListener, SocketFile), SocketError> {
        let Self { listener, file } = self;
        let listener =
            UnixListener::from_std(listener.into()).map_err(|source| SocketError::System {
                operation: "watch",
                path: file.path.clone(),
                source,
            })?;
        Ok((listener, file))
    }
}

impl SocketFile {
    fn of(path: &Path) -> rustix::io::Result<Self> {
        let Stat { st_dev, st_ino, .. } = look(path)?;
        Ok(Self {
            path: path.to_owned(),
            device: st_dev,
            inode: st_ino,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = look(&self.path)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.device, self.inode));
        if ours && let Err(error) = unlink(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "the socket was not removed");
        }
    }
}

/// A name beside the final one that watchers of the directory pass over (kubelet ignores dot files), and not longer, so that it can be bound
/// whenever the final one can: `csi.sock` becomes `.csi.soc`.
fn hidden_name(path: &Path) -> Result<PathBuf, SocketError> {
    let no_name = || SocketError::NoFileName {
        path: path.to_owned(),
    };
    let name = path.file_name().ok_or_else(no_name)?.as_bytes();
    let (_, rest) = name.split_last().ok_or_else(no_name)?;
    let hidden = [b".", rest].concat();
    if rest.is_empty() || hidden == name {
        return Err(no_name());
    }
    Ok(path.with_file_name(OsString::from_vec(hidden)))
}

/// Removes what a killed process left, and only that.
fn clear(path: &Path) -> Result<(), SocketError> {
    let stat = match look(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(system("look at", path)(error)),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(SocketError::NotASocket {
            path: path.to_owned(),
        });
    }
    match try_connect(path) {
        // Full backlog: somebody is there, only slow.
        Ok(()) | Err(Errno::AGAIN) => Err(SocketError::Live {
            path: path.to_owned(),
        }),
        Err(Errno::CONNREFUSED) => match unlink(path) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(system("remove the stale socket", path)(error)),
        },
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(system("ask who serves on", path)(error)),
    }
}

fn try_connect(path: &Path) -> rustix::io::Result<()> {
    connect(stream_socket()?, &SocketAddrUnix::new(path)?)
}

fn stream_socket() -> rustix::io::Result<OwnedFd> {
    socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

fn look(path: &Path) -> rustix::io::Result<Stat> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

fn system(operation: &'static str, path: &Path) -> impl FnOnce(Errno) -> SocketError {
    let path = path.to_owned();
    move |error| SocketError::System {
        operation,
        path,
        source: error.into(),
    }
}

#[cfg(test)]
mod tests;

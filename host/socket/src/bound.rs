//! A socket that listens under its name.

use crate::error::system;
use crate::file::{SocketFile, remove_stale, unix_socket};
use crate::{SOCKET_PATH_BYTES, SocketError};
use rustix::fs::{CWD, Mode, RenameFlags, fchmod, renameat_with};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketType, bind, listen};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

/// Connections that may wait to be accepted. kubelet opens one for every call; the kernel lowers this to its own `somaxconn`.
const BACKLOG: i32 = 1024;

/// How a socket carries what is said on it (unix(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Bytes in order: gRPC.
    Stream,
    /// Whole messages in order.
    SequencedPackets,
}

/// A socket that listens under its name, mode 0600. Removed when dropped.
#[derive(Debug)]
pub struct BoundSocket {
    listener: OwnedFd,
    file: SocketFile,
}

impl BoundSocket {
    /// Binds for this user's processes. A stale socket of that name is removed; a live one, and whatever is no socket, is an error. The
    /// directory must exist.
    pub fn bind(path: &Path, connections: Connections) -> Result<Self, SocketError> {
        Self::bind_for(path, connections, rustix::process::geteuid().as_raw())
    }

    /// The same, for the processes of another user.
    pub fn bind_for(
        path: &Path,
        connections: Connections,
        owner: u32,
    ) -> Result<Self, SocketError> {
        fits(path)?;
        let hidden = hidden_name(path)?;
        remove_stale(path)?;
        remove_stale(&hidden)?;
        let Self { listener, mut file } = listening(&hidden, connections)?;
        if owner != rustix::process::geteuid().as_raw() {
            lchown(&hidden, Some(owner), None).map_err(system("give to its user", &hidden))?;
        }
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

    /// Binds under its name at once: whoever watches the directory sees that name and no other. It listens the moment after, so a client that
    /// does not retry must not be told of the name by the watch alone.
    pub fn bind_in_place(path: &Path, connections: Connections) -> Result<Self, SocketError> {
        fits(path)?;
        remove_stale(path)?;
        listening(path, connections)
    }

    /// The descriptor, which does not wait, for the runtime; and the file, to be held as long as it is served.
    pub fn into_parts(self) -> (OwnedFd, SocketFile) {
        (self.listener, self.file)
    }
}

/// A socket that listens under a name that is free.
fn listening(path: &Path, connections: Connections) -> Result<BoundSocket, SocketError> {
    let kind = match connections {
        Connections::Stream => SocketType::STREAM,
        Connections::SequencedPackets => SocketType::SEQPACKET,
    };
    let listener = unix_socket(kind).map_err(system("make a socket for", path))?;
    // Linux gives the file the mode of the descriptor (unix_bind), so it is private without a moment of wider access and without
    // touching the process's umask.
    fchmod(&listener, Mode::RUSR | Mode::WUSR)
        .map_err(system("make private the socket for", path))?;
    let address = SocketAddrUnix::new(path).map_err(system("name the socket", path))?;
    bind(&listener, &address).map_err(|error| match error {
        // Between the look and now.
        Errno::ADDRINUSE => SocketError::Live {
            path: path.to_owned(),
        },
        error => system("bind", path)(error),
    })?;
    listen(&listener, BACKLOG).map_err(system("listen on", path))?;
    let file = SocketFile::of(path).map_err(system("look at", path))?;
    Ok(BoundSocket { listener, file })
}

/// Before anything is touched: the kernel's own word for it (EINVAL) says nothing.
fn fits(path: &Path) -> Result<(), SocketError> {
    let length = path.as_os_str().len();
    if length > SOCKET_PATH_BYTES {
        return Err(SocketError::PathTooLong {
            path: path.to_owned(),
            length,
        });
    }
    Ok(())
}

/// A name beside the final one that clients do not look for, and not longer, so that it can be bound
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

#[cfg(test)]
mod tests;

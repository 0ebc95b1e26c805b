//! A bound and listening socket.

use crate::error::system;
use crate::file::{SocketFile, remove_stale, stream_socket};
use crate::{SOCKET_PATH_BYTES, SocketError};
use rustix::fs::{CWD, Mode, RenameFlags, fchmod, renameat_with};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, listen};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

/// Connections that may wait to be accepted. kubelet opens one for every call; the kernel lowers this to its own `somaxconn`.
const BACKLOG: i32 = 1024;

/// A stream socket that listens at its path, mode 0600. Removed when dropped.
#[derive(Debug)]
pub struct BoundSocket {
    listener: OwnedFd,
    file: SocketFile,
}

impl BoundSocket {
    /// Binds a socket for processes of this user. A stale socket at the path is removed; a live one, and a file that is not a socket, is an error.
    /// The directory must exist.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        Self::bind_for(path, rustix::process::geteuid().as_raw())
    }

    /// Binds a socket for processes of another user.
    pub fn bind_for(path: &Path, owner: u32) -> Result<Self, SocketError> {
        fits(path)?;
        let hidden = hidden_name(path)?;
        remove_stale(path)?;
        remove_stale(&hidden)?;
        let Self { listener, mut file } = listening(&hidden)?;
        if owner != rustix::process::geteuid().as_raw() {
            lchown(&hidden, Some(owner), None).map_err(system("give to its user", &hidden))?;
        }
        renameat_with(CWD, &hidden, CWD, path, RenameFlags::NOREPLACE).map_err(
            |error| match error {
                // Created between the check and now.
                Errno::EXIST => SocketError::Live {
                    path: path.to_owned(),
                },
                error => system("put in place", path)(error),
            },
        )?;
        path.clone_into(&mut file.path);
        Ok(Self { listener, file })
    }

    /// Binds at the final name at once: a process that watches the directory sees this name and no other. The socket listens a moment later, so a
    /// client that does not retry must not rely on the watch alone.
    pub fn bind_in_place(path: &Path) -> Result<Self, SocketError> {
        fits(path)?;
        remove_stale(path)?;
        listening(path)
    }

    /// The non-blocking descriptor, for the runtime; and the file, to be held while the socket is served.
    pub fn into_parts(self) -> (OwnedFd, SocketFile) {
        (self.listener, self.file)
    }
}

/// A socket that listens at an unused name.
fn listening(path: &Path) -> Result<BoundSocket, SocketError> {
    let listener = stream_socket().map_err(system("make a socket for", path))?;
    // Linux gives the file the mode of the descriptor (unix_bind), so it is private from its first moment, without a change of the process's umask.
    fchmod(&listener, Mode::RUSR | Mode::WUSR)
        .map_err(system("make private the socket for", path))?;
    let address = SocketAddrUnix::new(path).map_err(system("name the socket", path))?;
    bind(&listener, &address).map_err(|error| match error {
        // Created between the check and now.
        Errno::ADDRINUSE => SocketError::Live {
            path: path.to_owned(),
        },
        error => system("bind", path)(error),
    })?;
    listen(&listener, BACKLOG).map_err(system("listen on", path))?;
    let file = SocketFile::of(path).map_err(system("look at", path))?;
    Ok(BoundSocket { listener, file })
}

/// Checked before any change: the kernel's own error (EINVAL) does not explain it.
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

/// A temporary name beside the final one, which clients do not use. It is not longer, so that it can be bound whenever the final one can:
/// `csi.sock` becomes `.csi.soc`.
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

//! What a killed process left under a name.
//!
//! Only a connection tells: the kernel refuses it (ECONNREFUSED) when nobody has the socket open any more, and for no other reason.

use crate::SocketError;
use crate::error::system;
use crate::file::look;
use rustix::fs::{FileType, unlink};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::fd::OwnedFd;
use std::path::Path;

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

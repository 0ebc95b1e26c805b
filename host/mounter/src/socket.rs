//! The mounter's socket in the file system: how it comes into being and how it goes. Apart because neither has to do with what is said on it.
//!
//! It appears under its name whole: its owner's alone, and already listening. It never takes another process's place, and at the end removes
//! only the very file that it made.

use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, Stat, fchmod, renameat_with, statat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use tokio_seqpacket::UnixSeqpacketListener;

/// Longest path of a Unix socket in bytes: `sun_path` has 108, the last one is NUL.
pub const SOCKET_PATH_BYTES: usize = 107;

/// Connections that may wait to be accepted. The kernel lowers this to its own `somaxconn`.
const BACKLOG: i32 = 1024;

/// Why a socket could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something else lies there; it is left alone.
    #[error("{path} is not a socket: remove it, or choose another name")]
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
}

/// A socket that listens under its name, for its owner alone. Removed when dropped.
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
    /// Binds for a user's processes. A stale socket of that name is removed; a live one, and whatever is no socket, is an error. The
    /// directory must exist.
    pub fn bind(path: &Path, owner: u32) -> Result<Self, SocketError> {
        let hidden = hidden_name(path);
        clear(path)?;
        clear(&hidden)?;
        let listener = socket().map_err(system("make a socket for", path))?;
        // Linux gives the file the mode of the descriptor (unix_bind), so it is private without a moment of wider access and without
        // touching the process's umask.
        fchmod(&listener, Mode::RUSR | Mode::WUSR)
            .map_err(system("make private the socket for", path))?;
        let address = SocketAddrUnix::new(&hidden).map_err(system("name the socket", &hidden))?;
        bind(&listener, &address).map_err(system("bind", &hidden))?;
        let mut file = SocketFile::of(&hidden).map_err(system("look at", &hidden))?;
        if owner != rustix::process::geteuid().as_raw() {
            lchown(&hidden, Some(owner), None).map_err(|source| SocketError::System {
                operation: "give to its user",
                path: hidden.clone(),
                source,
            })?;
        }
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
    pub(crate) fn listening(self) -> io::Result<(UnixSeqpacketListener, SocketFile)> {
        let Self { listener, file } = self;
        Ok((UnixSeqpacketListener::try_from(listener)?, file))
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
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = look(&self.path)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.device, self.inode));
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "the socket was not removed");
        }
    }
}

/// The name until it listens.
fn hidden_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
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
        // Full backlog: somebody is there, only slow. Another type of socket: somebody else is.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketError::Live {
            path: path.to_owned(),
        }),
        Err(Errno::CONNREFUSED) => match std::fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(SocketError::System {
                operation: "remove the stale socket",
                path: path.to_owned(),
                source,
            }),
            _ => Ok(()),
        },
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(system("ask who serves on", path)(error)),
    }
}

fn try_connect(path: &Path) -> rustix::io::Result<()> {
    connect(socket()?, &SocketAddrUnix::new(path)?)
}

fn socket() -> rustix::io::Result<OwnedFd> {
    socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
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
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mounter.sock");
        (directory, path)
    }

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_socket_is_its_owners_alone_and_goes_with_its_process() {
        let (directory, path) = place();
        let socket = BoundSocket::bind(&path, own()).unwrap();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
        assert_eq!(metadata.uid(), own());
        drop(socket);
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_stale_socket_makes_way_and_a_live_one_does_not() {
        let (_directory, path) = place();
        let killed = BoundSocket::bind(&path, own()).unwrap();
        let BoundSocket { listener, file } = killed;
        drop(listener);
        std::mem::forget(file);
        let live = BoundSocket::bind(&path, own()).unwrap();
        let refused = BoundSocket::bind(&path, own());
        assert!(matches!(refused, Err(SocketError::Live { .. })));
        assert!(path.exists());
        drop(live);
    }

    #[test]
    fn what_is_no_socket_and_what_a_successor_made_stays() {
        let (_directory, path) = place();
        std::fs::write(&path, "mine").unwrap();
        let refused = BoundSocket::bind(&path, own());
        assert!(matches!(refused, Err(SocketError::NotASocket { .. })));
        std::fs::remove_file(&path).unwrap();

        let first = BoundSocket::bind(&path, own()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = BoundSocket::bind(&path, own()).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}

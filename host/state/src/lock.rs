//! The lock of a data directory: two hosts must never write one store.
//!
//! It is an advisory `flock` on the directory itself: the kernel releases it when the process ends, even if it is killed.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Only the host reads its data: records may name volumes of every tenant.
const DATA_DIRECTORY_MODE: u32 = 0o700;

/// Holds a data directory until it is dropped.
#[derive(Debug)]
pub struct DataDirLock {
    directory: PathBuf,
    _locked: File,
}

/// Why a data directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another host holds the lock.
    #[error("data directory {} is in use by another host: stop that one, or name another directory", .directory.display())]
    Held {
        /// Which directory.
        directory: PathBuf,
    },
    /// The directory could not be created or opened.
    #[error("cannot lock data directory {}", .directory.display())]
    Io {
        /// Which directory.
        directory: PathBuf,
        /// The error of the kernel.
        #[source]
        source: io::Error,
    },
}

impl DataDirLock {
    /// Creates the directory and its parents if they are missing, and locks it. Without `wait` a lock that is held is [`LockError::Held`]; with it
    /// the call blocks until the other host has ended.
    pub fn acquire(directory: &Path, wait: bool) -> Result<Self, LockError> {
        let failed = |source: io::Error| LockError::Io {
            directory: directory.to_owned(),
            source,
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(DATA_DIRECTORY_MODE)
            .create(directory)
            .map_err(failed)?;
        let file = File::open(directory).map_err(failed)?;
        let locked = match wait {
            true => file.lock().map_err(TryLockError::Error),
            false => file.try_lock(),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    directory: directory.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        Ok(Self {
            directory: directory.to_owned(),
            _locked: file,
        })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_is_made_for_the_host_alone_and_locked() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        let lock = DataDirLock::acquire(&directory, false).unwrap();
        let mode = std::fs::metadata(lock.directory())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o700);
    }

    #[test]
    fn a_second_host_is_refused_until_the_first_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let first = DataDirLock::acquire(directory.path(), false).unwrap();
        assert!(matches!(
            DataDirLock::acquire(directory.path(), false),
            Err(LockError::Held { .. })
        ));
        drop(first);
        DataDirLock::acquire(directory.path(), false).unwrap();
    }

    #[test]
    fn a_second_host_that_waits_gets_it_when_the_first_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let first = DataDirLock::acquire(directory.path(), false).unwrap();
        let path = directory.path().to_owned();
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let lock = DataDirLock::acquire(&path, true);
            sender.send(()).unwrap();
            lock
        });
        let early = receiver.recv_timeout(std::time::Duration::from_millis(50));
        assert!(early.is_err(), "it did not wait");
        drop(first);
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn a_path_that_is_a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(
            DataDirLock::acquire(file.path(), false),
            Err(LockError::Io { .. })
        ));
    }
}

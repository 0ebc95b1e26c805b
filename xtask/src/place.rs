//! A temporary directory in which a driver serves: its data, its sockets, a kubelet directory, its log. Nothing may be removed through a mount, and
//! leftovers of an earlier, killed run must be removed without disturbing a run in progress.
//!
//! A place in use holds a lock that the kernel releases when its process ends; a place with a free lock is a leftover.

use crate::failure::Failure;
use crate::mountinfo;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The lock file of a place in use.
const LOCK: &str = "lock";

/// A directory without a lock file is a leftover only above this age: another process is still creating a younger one. Creating one takes
/// milliseconds.
const MAKING: Duration = Duration::from_secs(60);

/// The directory in which one driver serves, as long as this value lives.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    /// Absent once it was removed.
    directory: Option<TempDir>,
    _lock: File,
}

impl Place {
    /// Creates one in the system's temporary directory; `prefix` shows a reader who created it.
    pub fn create(prefix: &str) -> Result<Self, Failure> {
        let directory = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir()
            .map_err(Failure::io("create a temporary directory"))?;
        // The mount table shows resolved paths, so only those are used.
        let root = directory
            .path()
            .canonicalize()
            .map_err(Failure::io("resolve the temporary directory"))?;
        let lock = locked(&root).map_err(Failure::io(format!("lock {}", root.display())))?;
        let place = Self {
            root,
            directory: Some(directory),
            _lock: lock,
        };
        for each in [
            place.data(),
            place.run(),
            place.sockets(),
            place.kubelet(),
            place.paths(),
        ] {
            fs::create_dir(&each).map_err(Failure::io(format!("create {}", each.display())))?;
        }
        Ok(place)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// For `--data-dir`: the embedded store, the pools, the cache.
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// For `--run-dir`: the journal.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// For `--socket-dir`.
    pub fn sockets(&self) -> PathBuf {
        self.root.join("sockets")
    }

    /// For `--kubelet-dir`: volumes at kubelet's own paths are mounted below it.
    pub fn kubelet(&self) -> PathBuf {
        self.root.join("kubelet")
    }

    /// For `--path-root`: volumes at other paths are mounted below it.
    pub fn paths(&self) -> PathBuf {
        self.root.join("paths")
    }

    /// The log of the driver.
    pub fn log(&self) -> PathBuf {
        self.root.join("driver.log")
    }

    /// The mounts in it.
    pub fn mounts(&self) -> Result<Vec<PathBuf>, Failure> {
        mountinfo::mounts_below(&self.root)
    }

    /// Unmounts all mounts in it and removes it; returns what was mounted.
    pub fn take_away(mut self) -> Result<Vec<PathBuf>, Failure> {
        self.clear()
    }

    /// Keeps the directory for inspection; returns its path.
    pub fn leave(mut self) -> PathBuf {
        if let Some(directory) = self.directory.take() {
            let _ = directory.keep();
        }
        self.root.clone()
    }

    fn clear(&mut self) -> Result<Vec<PathBuf>, Failure> {
        let Some(directory) = self.directory.take() else {
            return Ok(Vec::new());
        };
        // From here on the temporary directory must not remove itself: it would do so through a mount that could not be undone.
        let path = directory.keep();
        remove(&path.canonicalize().unwrap_or(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// Creates the lock file. It gets its name only after it is locked: a free lock would mark the place as a leftover.
fn locked(root: &Path) -> io::Result<File> {
    let unlocked = root.join("lock.new");
    let file = File::create(&unlocked)?;
    file.try_lock()?;
    fs::rename(unlocked, root.join(LOCK))?;
    Ok(file)
}

/// Removes the leftovers of killed runs with this prefix; returns their paths.
pub fn sweep(prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.path().canonicalize().ok())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
        .filter(|path| is_leftover(path) && remove(path).is_ok())
        .collect()
}

/// Whether its lock is free. A directory of another user cannot be opened and is not a leftover of this user.
fn is_leftover(path: &Path) -> bool {
    match File::options().write(true).open(path.join(LOCK)) {
        Ok(file) => file.try_lock().is_ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let age = fs::metadata(path)
                .and_then(|it| it.modified())
                .ok()
                .and_then(|it| it.elapsed().ok());
            age.is_some_and(|age| age > MAKING)
        }
        Err(_) => false,
    }
}

/// Unmounts, and removes only if the mount table shows no mount there any more.
fn remove(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mounts = mountinfo::unmount_below(path)?;
    if let Some(mount) = mountinfo::mounts_below(path)?.first() {
        return Err(Failure::Unexpected {
            what: format!(
                "{} is still mounted, so {} was not removed: unmount it by hand",
                mount.display(),
                path.display()
            ),
        });
    }
    fs::remove_dir_all(path).map_err(Failure::io(format!("remove {}", path.display())))?;
    Ok(mounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_use_is_not_swept_and_a_leftover_is() {
        let place = Place::create("wasmount-sweep-").unwrap();
        assert!(sweep("wasmount-sweep-").is_empty());
        let root = place.leave();
        assert_eq!(sweep("wasmount-sweep-"), std::slice::from_ref(&root));
        assert!(!root.exists());
    }

    #[test]
    fn a_place_is_gone_when_it_is_dropped() {
        let place = Place::create("wasmount-drop-").unwrap();
        let root = place.root().to_owned();
        assert!(root.join("kubelet").is_dir());
        drop(place);
        assert!(!root.exists());
    }
}

//! A temporary directory in which a driver serves: its data, its sockets, a kubelet directory, its log. Nothing may be removed through a mount, and
//! leftovers of an earlier, killed run must be removed without disturbing a run in progress.
//!
//! A place in use holds a lock that the kernel releases when its process ends; a place with a free lock is a leftover.

use crate::failure::Failure;
use crate::files;
use crate::mountinfo;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The directory in which one driver serves, as long as this value lives.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    _lock: File,
}

impl Place {
    /// Creates one in the system's temporary directory; `prefix` shows a reader who created it.
    pub fn create(prefix: &str) -> Result<Self, Failure> {
        // It must not remove itself: it would do so through a mount that could not be undone.
        Self::at(&files::temporary(prefix)?.keep())
    }

    /// One in this directory, with what it has from before the machine started again.
    pub fn at(directory: &Path) -> Result<Self, Failure> {
        files::create_directory(directory)?;
        // The mount table shows resolved paths.
        let root = directory
            .canonicalize()
            .map_err(Failure::cannot(format!("resolve {}", directory.display())))?;
        let lock = files::hold(&root)?;
        let place = Self { root, _lock: lock };
        for each in [
            place.data(),
            place.run(),
            place.sockets(),
            place.kubelet(),
            place.paths(),
        ] {
            files::create_directory(&each)?;
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
    pub fn remove(self) -> Result<Vec<PathBuf>, Failure> {
        remove(&self.root)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Does nothing after `remove`.
        let _ = remove(&self.root);
    }
}

/// Removes the leftovers of killed runs with this prefix; returns their paths.
pub fn sweep(prefix: &str) -> Vec<PathBuf> {
    let entries = files::entries(&std::env::temp_dir()).unwrap_or_default();
    entries
        .into_iter()
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
        // A directory without a lock is still being created.
        .filter(|path| files::is_leftover(path) && remove(path).is_ok())
        .collect()
}

/// Unmounts, and removes only if the mount table shows no mount there any more.
fn remove(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mounts = mountinfo::unmount_below(path)?;
    if let Some(mount) = mountinfo::mounts_below(path)?.first() {
        return Err(Failure::Unexpected(format!(
            "{} is still mounted, so {} was not removed: unmount it by hand",
            mount.display(),
            path.display()
        )));
    }
    fs::remove_dir_all(path).map_err(Failure::cannot(format!("remove {}", path.display())))?;
    Ok(mounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_use_is_not_swept_and_a_leftover_is() {
        let place = Place::create("wasmount-sweep-").unwrap();
        assert!(sweep("wasmount-sweep-").is_empty());
        let left = tempfile::Builder::new().prefix("wasmount-sweep-").tempdir();
        let left = left.unwrap().keep().canonicalize().unwrap();
        drop(files::hold(&left).unwrap());
        assert_eq!(sweep("wasmount-sweep-"), std::slice::from_ref(&left));
        assert!(!left.exists() && place.root().exists());
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

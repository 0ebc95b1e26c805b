//! A directory that is removed with the command.
//!
//! The kernel knows whether the owner lives: the owner holds a lock (flock(2)) on the directory, and the kernel releases it however a process ends.
//! Process ids do not show that, since they are reused.

use crate::fault::Fault;
use crate::host::OWN_MODE;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{env, process};

/// The prefix of all names.
const PREFIX: &str = "wasmount-";
/// What follows the prefix: only directories of this program are ever removed.
const PURPOSES: [&str; 3] = ["workbench", "artifact", "manifests"];
/// How many names are tried. One is taken only by a directory that cannot be removed, or by a process of another container with the same process id.
const NAMES: u32 = 64;

/// The directory; it is removed with its contents when this is dropped.
pub(crate) struct TemporaryDirectory {
    path: PathBuf,
    /// Shows other processes that the directory is in use.
    _lock: File,
}

impl TemporaryDirectory {
    /// Removes the leftovers of killed commands, and makes a directory. An existing one belongs to another process: another name is tried.
    pub(crate) fn make(purpose: &'static str) -> Result<Self, Fault> {
        let parent = env::temp_dir();
        sweep(&parent);
        Self::make_in(&parent, purpose).map_err(|error| {
            Fault::Failed(format!(
                "no temporary directory can be made: in {}: {error}; make that directory, or name another by TMPDIR",
                parent.display()
            ))
        })
    }

    fn make_in(parent: &Path, purpose: &str) -> io::Result<Self> {
        for number in 0..NAMES {
            let name = format!("{PREFIX}{purpose}-{}-{number}", process::id());
            let path = parent.join(name);
            match DirBuilder::new().mode(OWN_MODE).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Between the two steps it was not locked, and another process may have removed it.
            if let Some(lock) = inhabit(&path)? {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // If it cannot be removed now, the next command removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of killed commands in the system's directory of temporary files.
pub(crate) fn sweep_temporary() {
    sweep(&env::temp_dir());
}

/// No command depends on it: a failure is only logged.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    for path in paths.filter(|path| is_named_as_ours(path)) {
        let shown = path.display();
        match abandoned(&path) {
            Ok(None) => {}
            Ok(Some(_lock)) => match found(fs::remove_dir_all(&path)) {
                Ok(Some(())) => tracing::info!(path = %shown, "removed files of a killed command"),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(path = %shown, %error, "files of a killed command could not be removed");
                }
            },
            Err(error) => tracing::debug!(path = %shown, %error, "not inspected"),
        }
    }
}

fn is_named_as_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let rest = name.and_then(|name| name.strip_prefix(PREFIX));
    let purpose = rest.and_then(|rest| rest.split_once('-'));
    purpose.is_some_and(|(purpose, _)| PURPOSES.contains(&purpose))
}

/// The directory, locked, if it belongs to this user and its owner process has ended.
fn abandoned(path: &Path) -> io::Result<Option<File>> {
    let directory = opened(path)?;
    // In a world-writable directory other users may create entries of any kind.
    if directory.metadata()?.uid() != geteuid().as_raw() {
        return Ok(None);
    }
    locked(path, directory)
}

/// Locks a directory that was just created; none if another process has locked or removed it.
fn inhabit(path: &Path) -> io::Result<Option<File>> {
    match found(opened(path))? {
        Some(directory) => locked(path, directory),
        None => Ok(None),
    }
}

/// The result; none: there is no such file.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// The directory, locked; none if another process holds it, or if another directory has its name by now:
/// its owner may have removed it, and the next owner taken the name, before the lock was got.
fn locked(path: &Path, directory: File) -> io::Result<Option<File>> {
    match directory.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let locked = directory.metadata()?;
    let named = found(fs::symlink_metadata(path))?;
    let is_same =
        named.is_some_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino()));
    Ok(is_same.then_some(directory))
}

fn opened(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_is_lived_in_is_never_swept_and_what_is_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let alive = TemporaryDirectory::make_in(folder.path(), "workbench").unwrap();
        fs::write(alive.path().join("file"), "kept").unwrap();
        let left = folder.path().join("wasmount-artifact-1-0");
        fs::create_dir_all(left.join("pools/deep")).unwrap();
        fs::write(left.join("component.wasm"), "left").unwrap();
        sweep(folder.path());
        assert!(!left.exists());
        assert_eq!(fs::read(alive.path().join("file")).unwrap(), b"kept");
        drop(alive);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn nothing_of_another_name_is_touched_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("file"), "outside").unwrap();
        let made = ["wasmount-others-1", "wasmount-workbench", "workbench-1"];
        for name in made {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let link = folder.path().join("wasmount-workbench-7");
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        // A link inside a removed directory is removed, and its target stays.
        let left = folder.path().join("wasmount-artifact-8");
        fs::create_dir(&left).unwrap();
        std::os::unix::fs::symlink(outside.path(), left.join("link")).unwrap();
        fs::write(folder.path().join("wasmount-artifact-9"), "a file").unwrap();
        sweep(folder.path());
        assert_eq!(
            names(folder.path()),
            [
                "wasmount-artifact-9",
                "wasmount-others-1",
                "wasmount-workbench",
                "wasmount-workbench-7",
                "workbench-1"
            ]
        );
        assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"outside");
    }

    #[test]
    fn a_name_that_is_taken_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let first = TemporaryDirectory::make_in(folder.path(), "workbench").unwrap();
        let second = TemporaryDirectory::make_in(folder.path(), "workbench").unwrap();
        assert_ne!(first.path(), second.path());
    }

    #[test]
    fn a_name_with_a_new_owner_is_not_locked_for_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wasmount-workbench-1-0");
        fs::create_dir(&path).unwrap();
        assert!(locked(&path, opened(&path).unwrap()).unwrap().is_some());
        let removed = opened(&path).unwrap();
        fs::remove_dir(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(locked(&path, removed).unwrap().is_none());
    }

    #[test]
    fn a_concurrent_sweep_removes_no_used_place() {
        const ROUNDS: usize = 200;
        let folder = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            let sweeping = scope.spawn(|| (0..ROUNDS * 4).for_each(|_| sweep(folder.path())));
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let place =
                            TemporaryDirectory::make_in(folder.path(), "workbench").unwrap();
                        let file = place.path().join("file");
                        fs::write(&file, "mine").unwrap();
                        assert_eq!(fs::read(&file).unwrap(), b"mine");
                    }
                });
            }
            sweeping.join().unwrap();
        });
        assert_eq!(names(folder.path()), [""; 0]);
    }
}

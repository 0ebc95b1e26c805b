//! Files and directories, with errors that name them.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The content of a file.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(Failure::cannot(format!("read {}", path.display())))
}

/// The content of a file as text; what is not UTF-8 is replaced.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&read(path)?).into_owned())
}

/// Writes a file, and creates its directory.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        create_directory(parent)?;
    }
    fs::write(path, content).map_err(Failure::cannot(format!("write {}", path.display())))
}

/// Copies a file to this path.
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = Failure::cannot(format!("copy {} to {}", from.display(), to.display()));
    fs::copy(from, to).map(drop).map_err(failed)
}

/// Creates a directory, with its parents.
pub fn create_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(Failure::cannot(format!("create {}", path.display())))
}

/// The paths of all entries of a directory, in order.
pub fn entries(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let paths = fs::read_dir(directory).and_then(|entries| {
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<Result<Vec<_>, io::Error>>()
    });
    let mut paths = paths.map_err(Failure::cannot(format!("read {}", directory.display())))?;
    paths.sort();
    Ok(paths)
}

/// The paths of everything below a directory, each directory before what is in it. Symbolic links are listed like other entries, and not followed.
pub fn below(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for path in entries(directory)? {
        paths.push(path.clone());
        if path.is_dir() && !path.is_symlink() {
            paths.extend(below(&path)?);
        }
    }
    Ok(paths)
}

/// Creates a directory with this prefix in the system's temporary directory; it is removed when the value is dropped.
pub fn temporary(prefix: &str) -> Result<TempDir, Failure> {
    let directory = tempfile::Builder::new().prefix(prefix).tempdir();
    directory.map_err(Failure::cannot("create a temporary directory"))
}

/// Waits for other builders in a directory, which is created first if it is missing. The kernel releases the lock when the process ends.
pub fn wait_for_turn(directory: &Path) -> Result<File, Failure> {
    create_directory(directory)?;
    let path = directory.join("lock");
    let lock = File::create(&path).and_then(|file| {
        file.lock()?;
        Ok(file)
    });
    lock.map_err(Failure::cannot(format!("lock {}", path.display())))
}

/// Marks a directory as used, by a lock that the kernel releases when the process ends. The file gets its name only after it is locked: a free lock
/// marks a leftover.
pub fn hold(directory: &Path) -> Result<File, Failure> {
    let unlocked = directory.join("lock.new");
    let held = File::create(&unlocked).and_then(|file| {
        file.try_lock()?;
        fs::rename(&unlocked, directory.join("lock"))?;
        Ok(file)
    });
    held.map_err(Failure::cannot(format!("lock {}", directory.display())))
}

/// Whether the lock of a directory exists and no process holds it.
pub fn is_leftover(directory: &Path) -> bool {
    File::open(directory.join("lock")).is_ok_and(|lock| lock.try_lock().is_ok())
}

/// Creates a file or a directory under another name first: two processes may make it at the same time, and the work may be interrupted.
pub fn complete(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        create_directory(parent)?;
    }
    let unfinished = path.with_added_extension(std::process::id().to_string());
    make(&unfinished)?;
    fs::rename(&unfinished, path)
        .map_err(Failure::cannot(format!("rename {}", unfinished.display())))
}

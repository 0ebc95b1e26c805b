//! The kernel's configfs (Linux, Documentation/filesystems/configfs.rst): directories that are objects, files that are their attributes.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::files;

/// Where it is mounted.
const CONFIGFS: &str = "/sys/kernel/config";

/// Loads modules of the kernel, and mounts configfs if need be.
pub(crate) fn mount(modules: &[&str]) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::missing(
            "root",
            "start as root, since a target is a part of the kernel, or with `--protocol none`",
        ));
    }
    // They may be built in: what is missing shows in what follows.
    let _ = command::try_read(Command::new("modprobe").arg("--all").args(modules));
    let is_mounted = files::entries(Path::new(CONFIGFS)).is_ok_and(|it| !it.is_empty());
    if is_mounted {
        return Ok(());
    }
    let mut mount = Command::new("mount");
    command::read(mount.args(["-t", "configfs", "configfs", CONFIGFS])).map(drop)
}

/// Makes an object, unless it is there.
pub(crate) fn make(path: &Path) -> Result<(), Failure> {
    let made = fs::create_dir(path);
    unless(ErrorKind::AlreadyExists, made)
        .map_err(Failure::cannot(format!("make {}", path.display())))
}

/// Sets an attribute.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), Failure> {
    fs::write(path, value).map_err(Failure::cannot(format!(
        "write {value} to {}",
        path.display()
    )))
}

/// The same, and the value is in no message.
pub(crate) fn write_secret(path: &Path, value: &str) -> Result<(), Failure> {
    fs::write(path, value).map_err(Failure::cannot(format!("write {}", path.display())))
}

/// Links one object to another.
pub(crate) fn link(to: &Path, path: &Path) -> Result<(), Failure> {
    symlink(to, path).map_err(Failure::cannot(format!("link {}", path.display())))
}

/// The objects in an object; none if that is not there.
pub(crate) fn directories(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    match path.exists() {
        true => Ok(files::entries(path)?
            .into_iter()
            .filter(|it| it.is_dir() && !it.is_symlink())
            .collect()),
        false => Ok(Vec::new()),
    }
}

/// Removes an object with its links, and the objects in it that were made and have links. What the kernel made goes with it.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    if !path.exists() {
        return Ok(());
    }
    unlink_all(path)?;
    for entry in files::entries(path)? {
        if entry.join("write_protect").exists() {
            remove(&entry)?;
        }
    }
    let removed = fs::remove_dir(path);
    unless(ErrorKind::NotFound, removed)
        .map_err(Failure::cannot(format!("remove {}", path.display())))
}

/// Removes the links in an object.
pub(crate) fn unlink_all(path: &Path) -> Result<(), Failure> {
    let entries = files::entries(path)?.into_iter();
    let mut links = entries.filter(|entry| entry.is_symlink());
    links.try_for_each(|link| unlink(&link))
}

/// Removes a link, also one that is not there.
pub(crate) fn unlink(path: &Path) -> Result<(), Failure> {
    let unlinked = fs::remove_file(path);
    unless(ErrorKind::NotFound, unlinked)
        .map_err(Failure::cannot(format!("unlink {}", path.display())))
}

/// A result in which one error is none.
fn unless(kind: ErrorKind, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        other => other,
    }
}

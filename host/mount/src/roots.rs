//! Paths of the node that a client names: accepted only strictly below a path root, and turned into descriptors without following a link.
//!
//! No other code opens a client's path. Below pools, `confine` does the same for a plugin's paths.

use crate::confine::open_resolved;
use crate::failure::{io, kernel, shown};
use crate::kubelet_path::{Purpose, is_used};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;
use wasmount_core::names::{DriverName, NodePath};

/// Longest part of a path, in bytes: `NAME_MAX`.
const PART_BYTES: usize = 255;
/// Reason to refuse a path with a component over [`PART_BYTES`].
const PART_TOO_LONG: &str = "a part of it is longer than 255 bytes";

/// A directory below which a client may name paths; absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathRoot {
    /// kubelet's root directory: volumes are accepted only at paths that kubelet makes for CSI.
    Kubelet(PathBuf),
    /// The directory of another orchestrator: any path below it is accepted.
    Any(PathBuf),
}

/// The directories below which a client may name paths.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    roots: Vec<PathRoot>,
}

/// A syntactically checked path. Nothing has been opened yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedPath {
    /// As the administrator configured it. It may be a link or lead through one, because the administrator is trusted.
    root: PathRoot,
    /// Path from the root to the parent directory; empty if that is the root.
    parent: PathBuf,
    name: OsString,
    /// The whole path, by which the journal identifies it.
    text: String,
}

/// A name in an opened directory. Calls act on it, so that no later rename or link can redirect them.
#[derive(Debug)]
pub(crate) struct Location {
    /// `O_PATH` descriptor of the parent directory.
    pub(crate) parent: OwnedFd,
    /// One path component.
    pub(crate) name: OsString,
    /// For messages and the journal only.
    pub(crate) path: String,
}

impl PathRoot {
    /// As it was configured.
    pub fn directory(&self) -> &Path {
        match self {
            Self::Kubelet(directory) | Self::Any(directory) => directory,
        }
    }
}

impl Roots {
    pub(crate) fn new(roots: Vec<PathRoot>) -> Self {
        Self { roots }
    }

    /// The directories as they were configured.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(PathRoot::directory)
    }

    /// Checks the syntax of a client's path. `..` and `.` are refused and not resolved: no CSI client needs them.
    pub(crate) fn check(&self, path: &NodePath) -> Result<CheckedPath, MountError> {
        self.check_text(path.as_str())
    }

    /// The same for a path from the journal, which is in the form of [`NodePath`]: the roots may have changed since.
    pub(crate) fn check_text(&self, path: &str) -> Result<CheckedPath, MountError> {
        let refuse = |reason: &str| MountError::outside_roots(shown(path), reason, self.names());
        if !path.starts_with('/') {
            return Err(refuse("it is not absolute"));
        }
        for part in path.split('/') {
            if part == ".." || part == "." {
                return Err(refuse("it contains `.` or `..`"));
            }
            if part.contains('\0') {
                return Err(refuse("it contains a NUL byte"));
            }
            if part.len() > PART_BYTES {
                return Err(refuse(PART_TOO_LONG));
            }
        }
        let whole = Path::new(path);
        let (root, below) = self
            .roots
            .iter()
            .filter_map(|root| Some((root, whole.strip_prefix(root.directory()).ok()?)))
            .min_by_key(|(_, below)| below.components().count())
            .ok_or_else(|| refuse("it lies elsewhere"))?;
        let name = below
            .file_name()
            .ok_or_else(|| refuse("it is a root itself"))?;
        Ok(CheckedPath {
            root: root.clone(),
            parent: below.parent().unwrap_or(Path::new("")).to_owned(),
            name: name.to_owned(),
            text: path.to_owned(),
        })
    }

    /// Whether a path of the mount table lies below a root.
    pub(crate) fn hold(&self, path: &Path) -> bool {
        self.directories().any(|root| {
            let real = open_root(root).ok().flatten();
            let real = real.and_then(|root| real_path(&root).ok());
            real.is_some_and(|real| path != real && path.starts_with(real))
        })
    }

    fn names(&self) -> String {
        let names = self.directories().map(|root| root.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

impl CheckedPath {
    /// The path in the form of [`NodePath`].
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Refuses a path below kubelet's root directory that kubelet does not use in such a call.
    pub(crate) fn refuse_unlike_kubelets(
        &self,
        purpose: Purpose,
        driver: &DriverName,
    ) -> Result<(), MountError> {
        let PathRoot::Kubelet(root) = &self.root else {
            return Ok(());
        };
        if is_used(&self.parent.join(&self.name), purpose, driver) {
            return Ok(());
        }
        Err(MountError::outside_roots(
            shown(&self.text),
            format!(
                "kubelet names no such path in this call of {driver}; paths of another orchestrator need a directory apart from kubelet's (--path-root)"
            ),
            root.display(),
        ))
    }

    /// Opens the parent directory. `None`: a component of its path does not exist.
    pub(crate) fn locate(&self) -> Result<Option<Location>, MountError> {
        let Some(root) = open_root(self.root.directory())? else {
            return Ok(None);
        };
        let parent = if self.parent.as_os_str().is_empty() {
            root
        } else {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            match open_beneath(&root, &self.parent, flags) {
                Ok(parent) => parent,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(self.refusal(errno)),
            }
        };
        Ok(Some(Location {
            parent,
            name: self.name.clone(),
            path: self.text.clone(),
        }))
    }

    /// The path as the kernel's mount table shows it, with links in the root's own path resolved. `None`: the root does not exist. Nothing below the
    /// root is accessed, because it may be storage that hangs.
    pub(crate) fn in_mount_table(&self) -> Result<Option<PathBuf>, MountError> {
        let Some(root) = open_root(self.root.directory())? else {
            return Ok(None);
        };
        let real = real_path(&root)?;
        Ok(Some(real.join(&self.parent).join(&self.name)))
    }

    fn refusal(&self, errno: Errno) -> MountError {
        let root = self.root.directory().display().to_string();
        refusal("open", &self.text, &root, errno)
    }
}

impl Location {
    /// Opens what exists at the name now, without reading or changing it: the root of the topmost mount, if there is one.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        open_beneath(&self.parent, Path::new(&self.name), OFlags::PATH)
    }

    /// The error of a system call on the name. An error number that means an unacceptable path becomes a refusal of the path.
    pub(crate) fn failed(&self, operation: &str, errno: Errno) -> MountError {
        refusal(operation, &self.path, "its root", errno)
    }

    /// The error that something else exists at the name.
    pub(crate) fn occupied(&self, difference: &str) -> MountError {
        MountError::already_exists(&self.path, difference)
    }

    /// A path of the name that leads through the opened directory, for `umount2`, which does not take a descriptor. (A descriptor of the mount itself
    /// would keep it busy.)
    pub(crate) fn through_descriptor(&self) -> PathBuf {
        let directory = format!("/proc/self/fd/{}", self.parent.as_raw_fd());
        Path::new(&directory).join(OsStr::new(&self.name))
    }
}

/// Opens a path below a directory, without following links and `..`. Mounts are crossed: a kubelet directory may contain some.
fn open_beneath(directory: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    open_resolved(directory, path, flags, resolve)
}

/// Opens a root, following links. `None`: it does not exist.
pub(crate) fn open_root(root: &Path) -> Result<Option<OwnedFd>, MountError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(root, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(kernel("open path root", root.display(), errno)),
    }
}

/// The current path of an opened directory, without links.
pub(crate) fn real_path(directory: &OwnedFd) -> Result<PathBuf, MountError> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    std::fs::read_link(&link).map_err(|error| io("readlink", link, &error))
}

fn refusal(operation: &str, path: &str, root: &str, errno: Errno) -> MountError {
    let reason = match errno {
        Errno::LOOP => "it leads through a symbolic link",
        Errno::XDEV => "it leads out of its root",
        Errno::NOTDIR => "a part of it is not a directory",
        Errno::NAMETOOLONG => PART_TOO_LONG,
        _ => return kernel(operation, shown(path), errno),
    };
    MountError::outside_roots(shown(path), reason, root)
}

#[cfg(test)]
mod tests;

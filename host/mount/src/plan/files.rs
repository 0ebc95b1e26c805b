//! The small files of step `files`: checks their paths, their number and their size.
//!
//! A plugin cannot use the names that the host reserves at the top of the volume (`..data` and all others that begin with `..`). No content is ever
//! formatted.

use crate::confine::check_relative;
use crate::failure::shown;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::PlanFile;
use zeroize::Zeroizing;

/// Maximum size of all files together, in bytes: the limit of a Kubernetes Secret (`MaxSecretSize`), for which these files are a substitute.
pub(crate) const CONTENT_BYTES: usize = 1 << 20;
/// Maximum number of files and directories together: ten times the usual content of a Secret, and few enough to swap them in milliseconds.
pub(crate) const ENTRIES: usize = 1024;
/// The bits that a mode may have: read, write and execute, without the set-user, set-group and sticky bits.
const PERMISSIONS: u32 = 0o777;
/// Name of all files in messages.
const ALL: &str = "the files of step `files`";
/// Prefix of the names that the host reserves at the top: kubelet's own rule for the same layout (`atomic_writer.go`, `validatePath`).
pub(crate) const HOST_PREFIX: &str = "..";

/// A set of files without conflicting paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedFiles {
    /// In the order of their paths.
    pub(crate) files: Vec<CheckedFile>,
    /// Each directory by its path, with the names in it, a parent before what lies in it. The top is the empty path and always exists.
    pub(crate) directories: BTreeMap<String, BTreeSet<String>>,
    /// Options of the file system below them, as names and values.
    pub(crate) options: Vec<(String, String)>,
}

/// One file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CheckedFile {
    path: String,
    /// Permission bits.
    pub(crate) mode: u32,
    /// It may be written but not formatted.
    pub(crate) content: Zeroizing<Vec<u8>>,
}

impl CheckedFiles {
    /// Names at the top.
    pub(crate) fn top_names(&self) -> impl Iterator<Item = &str> {
        self.directories
            .get("")
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// Whether a name at the top is one of these files or directories.
    pub(crate) fn has_top_name(&self, name: &str) -> bool {
        self.directories
            .get("")
            .is_some_and(|names| names.contains(name))
    }
}

impl CheckedFile {
    /// The path of its directory, empty for the top, and its name in it.
    pub(crate) fn place(&self) -> (&str, &str) {
        parent_and_name(&self.path)
    }
}

impl fmt::Debug for CheckedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            mode,
            content,
        } = self;
        write!(
            f,
            "CheckedFile({path:?}, {mode:o}, {} bytes)",
            content.len()
        )
    }
}

/// Checks all files of a plan, on a file system with these options.
pub(crate) fn check(
    files: &[PlanFile],
    options: Vec<(String, String)>,
) -> Result<CheckedFiles, MountError> {
    let bytes = files
        .iter()
        .fold(0_usize, |sum, file| sum.saturating_add(file.content.len()));
    if bytes > CONTENT_BYTES {
        let reason = format!("they hold {bytes} bytes together, more than {CONTENT_BYTES}");
        return Err(MountError::invalid(ALL, reason, Blame::Size(CONTENT_BYTES)));
    }
    let mut by_path = BTreeMap::new();
    let mut directories = BTreeMap::from([(String::new(), BTreeSet::new())]);
    for file in files {
        check_path(&file.path).map_err(|reason| refused(&file.path, &reason))?;
        if file.mode & !PERMISSIONS != 0 {
            let what = format!("file `{}` of step `files`", shown(&file.path));
            let blame = Blame::Of(Owner::Request);
            return Err(MountError::invalid(
                what,
                "its mode is not within 0777",
                blame,
            ));
        }
        let checked = CheckedFile {
            path: file.path.clone(),
            mode: file.mode,
            content: Zeroizing::new(file.content.clone()),
        };
        if by_path.insert(file.path.as_str(), checked).is_some() {
            return Err(refused(&file.path, "it is given twice"));
        }
        enter(&mut directories, &file.path);
        // The top itself is not an entry.
        if by_path.len() + directories.len() - 1 > ENTRIES {
            let reason = format!("they are more than {ENTRIES} with their directories");
            // One byte of the request creates at most one entry.
            return Err(MountError::invalid(ALL, reason, Blame::Size(ENTRIES)));
        }
    }
    if let Some(path) = by_path.keys().find(|path| directories.contains_key(**path)) {
        return Err(refused(path, "another file's path has it as a directory"));
    }
    Ok(CheckedFiles {
        files: by_path.into_values().collect(),
        directories,
        options,
    })
}

/// Adds a file to its directory, and that directory to its parent, up to the first known one.
fn enter(directories: &mut BTreeMap<String, BTreeSet<String>>, path: &str) {
    let mut entry = path;
    loop {
        let (parent, name) = parent_and_name(entry);
        if let Some(names) = directories.get_mut(parent) {
            names.insert(name.to_owned());
            return;
        }
        directories.insert(parent.to_owned(), BTreeSet::from([name.to_owned()]));
        entry = parent;
    }
}

fn check_path(path: &str) -> Result<(), String> {
    check_relative(path).map_err(|fault| fault.to_string())?;
    if path.starts_with(HOST_PREFIX) {
        return Err("names at the top that begin with `..` are reserved for the host".to_owned());
    }
    Ok(())
}

fn parent_and_name(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn refused(path: &str, reason: &str) -> MountError {
    let what = format!("file `{}` of step `files`", shown(path));
    MountError::invalid(what, reason, Blame::argument(path))
}

#[cfg(test)]
mod tests;

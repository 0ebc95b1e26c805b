//! The small files of step `files`, checked: where each may lie, how many there may be, how much they may hold.
//!
//! A name of the plugin's is never one of the names that the host keeps for itself at the volume's top (`..data` and its like, all that begin
//! with `..`). No content is formatted.

use crate::failure::{invalid, shown};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::PlanFile;
use zeroize::Zeroizing;

/// Most that all files hold together, in bytes: what a Kubernetes Secret holds (`MaxSecretSize`), which these files stand in for.
pub(crate) const CONTENT_BYTES: usize = 1 << 20;
/// Most files and directories together: ten times what anybody keeps in one Secret, and few enough to swap them in milliseconds.
pub(crate) const ENTRIES: usize = 1024;
/// Longest path, in bytes: `PATH_MAX` without its NUL.
const PATH_BYTES: usize = 4095;
/// Longest part of a path, in bytes: `NAME_MAX`.
const PART_BYTES: usize = 255;
/// What a mode may be of: read, write and execute, without the set-user, set-group and sticky bits.
const PERMISSIONS: u32 = 0o777;
/// What messages call all of them.
const ALL: &str = "the files of step `files`";
/// How names begin that the host keeps for itself at the top: kubelet's own rule for the same layout (`atomic_writer.go`, `validatePath`).
pub(crate) const HOST_PREFIX: &str = "..";

/// Files that can lie beside each other in one tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedFiles {
    /// In the order of their paths.
    files: Vec<CheckedFile>,
    /// The path of each directory, and the names in it; the top is the empty path and is always there.
    directories: BTreeMap<String, BTreeSet<String>>,
    /// Of the file system that they lie on: name and value.
    options: Vec<(String, String)>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CheckedFile {
    path: String,
    mode: u32,
    content: Zeroizing<Vec<u8>>,
}

impl CheckedFiles {
    /// The same, on a file system with these options.
    pub(crate) fn with_options(self, options: Vec<(String, String)>) -> Self {
        Self { options, ..self }
    }

    /// Of the file system that they lie on: name and value.
    pub(crate) fn options(&self) -> &[(String, String)] {
        &self.options
    }

    pub(crate) fn files(&self) -> &[CheckedFile] {
        &self.files
    }

    /// Path and names of each directory, a parent before what lies in it, the top (the empty path) first.
    pub(crate) fn directories(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.directories
            .iter()
            .map(|(path, names)| (path.as_str(), names))
    }

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

    /// Permission bits.
    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    /// To be written, never to be formatted.
    pub(crate) fn content(&self) -> &[u8] {
        &self.content
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

/// Checks all files of a plan.
pub(crate) fn check(files: &[PlanFile]) -> Result<CheckedFiles, MountError> {
    let bytes = files
        .iter()
        .fold(0_usize, |sum, file| sum.saturating_add(file.content.len()));
    if bytes > CONTENT_BYTES {
        let reason = format!("they hold {bytes} bytes together, more than {CONTENT_BYTES}");
        return Err(invalid(ALL, reason, Blame::Size(CONTENT_BYTES)));
    }
    let mut by_path = BTreeMap::new();
    let mut directories = BTreeMap::from([(String::new(), BTreeSet::new())]);
    for file in files {
        check_path(&file.path).map_err(|reason| refused(&file.path, reason))?;
        if file.mode & !PERMISSIONS != 0 {
            let what = format!("file `{}` of step `files`", shown(&file.path));
            let blame = Blame::Of(Owner::Request);
            return Err(invalid(what, "its mode is not within 0777", blame));
        }
        let checked = CheckedFile {
            path: file.path.clone(),
            mode: file.mode,
            content: Zeroizing::new(file.content.clone()),
        };
        if by_path.insert(file.path.as_str(), checked).is_some() {
            return Err(refused(&file.path, "it is there twice"));
        }
        enter(&mut directories, &file.path);
        // The top is no entry of the volume's own.
        if by_path.len() + directories.len() - 1 > ENTRIES {
            let reason = format!("they are more than {ENTRIES} with their directories");
            // One byte of the request makes an entry at most.
            return Err(invalid(ALL, reason, Blame::Size(ENTRIES)));
        }
    }
    if let Some(path) = by_path.keys().find(|path| directories.contains_key(**path)) {
        return Err(refused(path, "another file's path has it as a directory"));
    }
    Ok(CheckedFiles {
        files: by_path.into_values().collect(),
        directories,
        options: Vec::new(),
    })
}

/// Notes a file in its directory, and that in its own, up to one that is known.
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

fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > PATH_BYTES {
        return Err("its path is longer than 4095 bytes");
    }
    if path.contains('\0') {
        return Err("its path contains a NUL byte");
    }
    for part in path.split('/') {
        match part {
            "" => return Err("its path has an empty part; it is relative, and of a file"),
            "." | ".." => return Err("its path has a part `.` or `..`"),
            part if part.len() > PART_BYTES => {
                return Err("a part of its path is longer than 255 bytes");
            }
            _ => {}
        }
    }
    if path.starts_with(HOST_PREFIX) {
        return Err("names at the top that begin with `..` are the host's own");
    }
    Ok(())
}

fn parent_and_name(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn refused(path: &str, reason: &str) -> MountError {
    let what = format!("file `{}` of step `files`", shown(path));
    invalid(what, reason, Blame::word(path))
}

#[cfg(test)]
mod tests;

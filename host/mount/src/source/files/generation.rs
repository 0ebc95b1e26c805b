//! One generation of a volume's files: a directory with a reserved name that contains all of them. It is written completely before a link leads to
//! it, and compared with the existing generation before anything is written.

use super::fresh_name;
use crate::block::read_at;
use crate::confine::{DIRECTORY, names, open_confined};
use crate::plan::files::{CheckedFile, CheckedFiles};
use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use zeroize::Zeroizing;

/// Mode of a file or directory until its own mode is set: only root can read an incomplete secret.
const UNFINISHED_MODE: Mode = Mode::RWXU;

/// Mode of directories, kubelet's own (`atomic_writer.go`).
pub(super) const DIRECTORY_MODE: u32 = 0o755;
/// What the group of a volume adds to the mode of a file: kubelet's `roMask` (`volume_linux.go`), since the pod must not write these files.
const GROUP_READS: u32 = 0o440;
/// What it adds to the mode of a directory: new entries inherit the group.
const SET_GROUP: u32 = 0o2000;
/// The bits of `st_mode` that chmod(2) sets.
const MODE_BITS: u32 = 0o7777;

/// The attributes that a file or directory must have. The owner is root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes {
    group: u32,
    mode: u32,
}

impl Attributes {
    pub(super) fn of_directory(group: Option<u32>) -> Self {
        Self::with(DIRECTORY_MODE, SET_GROUP, group)
    }

    pub(super) fn of_file(mode: u32, group: Option<u32>) -> Self {
        Self::with(mode, GROUP_READS, group)
    }

    fn with(mode: u32, added: u32, group: Option<u32>) -> Self {
        Self {
            group: group.unwrap_or_else(|| Gid::ROOT.as_raw()),
            mode: if group.is_some() { mode | added } else { mode },
        }
    }

    /// Whether a file or directory has these attributes.
    pub(super) fn are_of(self, status: &Stat) -> bool {
        status.st_uid == Uid::ROOT.as_raw()
            && status.st_gid == self.group
            && status.st_mode & MODE_BITS == self.mode
    }

    /// Sets the attributes of an open file. The mode is set last: a change of owner or group clears bits of it (chown(2)).
    pub(super) fn give(self, descriptor: impl AsFd) -> Result<(), Errno> {
        if self.are_of(&rustix::fs::fstat(&descriptor)?) {
            return Ok(());
        }
        let group = Gid::from_raw(self.group);
        rustix::fs::fchown(&descriptor, Some(Uid::ROOT), Some(group))?;
        rustix::fs::fchmod(&descriptor, Mode::from_raw_mode(self.mode))
    }
}

/// Writes a generation and returns its name.
pub(super) fn write(
    root: &OwnedFd,
    files: &CheckedFiles,
    group: Option<u32>,
) -> Result<String, Errno> {
    let generation = fresh_name()?;
    make_directory(root, &generation, group)?;
    let top = open_confined(root, generation.as_str(), DIRECTORY)?;
    for (path, _) in files
        .directories
        .iter()
        .filter(|(path, _)| !path.is_empty())
    {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        make_directory(&open_in(&top, parent)?, name, group)?;
    }
    for file in &files.files {
        write_file(&top, file, group)?;
    }
    Ok(generation)
}

/// Whether a generation has exactly these files, with this group.
pub(super) fn shows(
    root: &OwnedFd,
    generation: &str,
    files: &CheckedFiles,
    group: Option<u32>,
) -> Result<bool, Errno> {
    let top = open_confined(root, generation, DIRECTORY)?;
    // Names are compared first, so that every name is known when the files are compared.
    for (path, names) in &files.directories {
        if !is_as_found(shows_directory(&top, path, names, group))? {
            return Ok(false);
        }
    }
    for file in &files.files {
        if !is_as_found(shows_file(&top, file, group))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A missing entry, or one of another kind, is a difference and not an error.
fn is_as_found(checked: Result<bool, Errno>) -> Result<bool, Errno> {
    match checked {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO) => Ok(false),
        checked => checked,
    }
}

fn shows_directory(
    top: &OwnedFd,
    path: &str,
    expected: &BTreeSet<String>,
    group: Option<u32>,
) -> Result<bool, Errno> {
    let directory = open_in(top, path)?;
    if !Attributes::of_directory(group).are_of(&rustix::fs::fstat(&directory)?) {
        return Ok(false);
    }
    let found: BTreeSet<_> = names(&directory)?.into_iter().collect();
    let is_expected = |name: &CString| name.to_str().is_ok_and(|name| expected.contains(name));
    Ok(found.len() == expected.len() && found.iter().all(is_expected))
}

fn shows_file(top: &OwnedFd, file: &CheckedFile, group: Option<u32>) -> Result<bool, Errno> {
    let (parent, name) = file.place();
    // The open must not wait for a named pipe that a pod created.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let found = open_confined(open_in(top, parent)?, name, flags)?;
    let status = rustix::fs::fstat(&found)?;
    let is_alike = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
        && Attributes::of_file(file.mode, group).are_of(&status)
        && u64::try_from(status.st_size).ok() == u64::try_from(file.content.len()).ok();
    if !is_alike {
        return Ok(false);
    }
    let mut content = Zeroizing::new(vec![0; file.content.len()]);
    let filled = read_at(&found, &mut content, 0)?;
    // Less is there if the file was truncated meanwhile.
    Ok(filled == content.len() && content == file.content)
}

fn write_file(top: &OwnedFd, file: &CheckedFile, group: Option<u32>) -> Result<(), Errno> {
    let (parent, name) = file.place();
    // EXCL: neither an existing file nor a link is opened.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = rustix::fs::openat(open_in(top, parent)?, name, flags, UNFINISHED_MODE)?;
    let mut to = File::from(to);
    to.write_all(&file.content)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Attributes::of_file(file.mode, group).give(&to)
}

fn make_directory(parent: impl AsFd, name: &str, group: Option<u32>) -> Result<(), Errno> {
    rustix::fs::mkdirat(&parent, name, UNFINISHED_MODE)?;
    Attributes::of_directory(group).give(&open_confined(&parent, name, DIRECTORY)?)
}

/// A directory of the generation; the empty path is its top.
fn open_in(top: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    open_confined(top, if path.is_empty() { "." } else { path }, DIRECTORY)
}

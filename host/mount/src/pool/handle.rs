//! An open pool: its directory, the host's private directories in it, the ledger, and the running copies.

use crate::confine::{DIRECTORY, open_confined};
use crate::failure::kernel;
use crate::observe::Identity;
use crate::pool::copies::Copies;
use crate::pool::ledger::{Inode, Ledger};
use crate::pool::place::Place;
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, Statx};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::CString;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use uuid::Uuid;
use wasmount_core::mounter::MountError;

const TRASH_NAME: &str = "trash";
const UNFINISHED_NAME: &str = "unfinished";
const GROUPS_NAME: &str = "groups";

/// An open pool. While one process has it open, no other process changes it.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) root: OwnedFd,
    /// The path by which it was opened first, which may lead through links.
    pub(super) path: PathBuf,
    /// Content that is being deleted: hidden from the plugin, and found again after a kill.
    pub(super) trash: OwnedFd,
    /// Entries of the trash that could not be deleted yet.
    pub(super) stuck: Mutex<Vec<CString>>,
    /// Unfinished trees and images, which are moved to their places when they are complete.
    pub(super) unfinished: OwnedFd,
    /// Intents of moves of several targets, as long as they may be incomplete.
    pub(super) groups: OwnedFd,
    /// Whether the pool may contain a partially moved group. Locked for writing while a group is moved or undone, and for reading while the content
    /// of the pool is read.
    pub(super) is_half_moved: RwLock<bool>,
    pub(super) ledger: Ledger,
    pub(super) copies: Arc<Copies>,
    pub(super) identity: Identity,
    /// The host's private directory, locked.
    _folder: OwnedFd,
    /// The file that is locked in a pool on a server.
    _server_lock: Option<OwnedFd>,
}

impl Pool {
    /// Opens the directories inside the host's private directory of a pool.
    pub(super) fn with_folder(
        root: OwnedFd,
        path: &Path,
        folder: OwnedFd,
        identity: Identity,
        server_lock: Option<OwnedFd>,
    ) -> Result<Self, Errno> {
        let trash = make_folder(&folder, TRASH_NAME)?;
        let unfinished = make_folder(&folder, UNFINISHED_NAME)?;
        let groups = make_folder(&folder, GROUPS_NAME)?;
        let ledger = Ledger::open(&folder).map_err(errno_of)?;
        rustix::fs::fsync(&folder)?;
        rustix::fs::fsync(&root)?;
        Ok(Self {
            root,
            path: path.to_owned(),
            trash,
            stuck: Mutex::default(),
            unfinished,
            groups,
            // A killed host may have left one.
            is_half_moved: RwLock::new(true),
            ledger,
            copies: Arc::default(),
            identity,
            _folder: folder,
            _server_lock: server_lock,
        })
    }

    /// The directory that contains a place, for changes and for syncing.
    pub(super) fn parent(&self, place: &Place) -> Result<OwnedFd, MountError> {
        open_confined(&self.root, place.path.parent(), DIRECTORY)
            .map_err(|errno| place.failed("open the parent directory", errno))
    }

    /// The same. `None` if it does not exist.
    pub(super) fn parent_if_there(&self, place: &Place) -> Result<Option<OwnedFd>, MountError> {
        match self.parent(place) {
            Err(MountError::NotFound { .. }) => Ok(None),
            parent => parent.map(Some),
        }
    }

    /// The current state of a place. A link is not followed.
    pub(super) fn status(
        &self,
        parent: &OwnedFd,
        place: &Place,
    ) -> Result<Option<Statx>, MountError> {
        status_of(parent, place.path.name()).map_err(|errno| place.failed("stat", errno))
    }

    /// Makes a place durable by syncing the directory that contains it.
    pub(super) fn sync_parent(&self, parent: impl AsFd, place: &Place) -> Result<(), MountError> {
        rustix::fs::fsync(parent).map_err(|errno| place.failed("sync the parent directory", errno))
    }

    /// Moves a finished tree or image to its place, if the place is free. It is durable on return, including the ledger.
    pub(super) fn finish(&self, name: &str, place: &Place) -> Result<(), MountError> {
        self.sync_ledger(place)?;
        let parent = self.move_to(name, place)?;
        self.sync_parent(&parent, place)
    }

    /// Moves an unfinished tree or image to its place, if the place is free. The directory that contains the place is resolved only now: it may have
    /// been renamed since a long copy started.
    pub(super) fn move_to(&self, name: &str, place: &Place) -> Result<OwnedFd, MountError> {
        let parent = self.parent(place)?;
        match rename_no_replace(&self.unfinished, name, &parent, place.path.name()) {
            Ok(()) => Ok(parent),
            Err(Errno::EXIST) => Err(place.otherwise_there("it appeared at this moment")),
            Err(errno) => Err(place.failed("rename", errno)),
        }
    }

    /// Returns when what was promised is on stable storage. `what`: the subject of the call, for messages.
    pub(super) fn sync_ledger(&self, what: impl Display) -> Result<(), MountError> {
        self.ledger
            .sync()
            .map_err(|error| ledger_failed(what, error))
    }
}

/// An error of the ledger's file; `what`: the subject of the call.
pub(super) fn ledger_failed(what: impl Display, error: io::Error) -> MountError {
    kernel("write the ledger", what, errno_of(error))
}

pub(super) fn errno_of(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// A name that is unique in the host's private directories, also across killed processes.
pub(super) fn fresh_name() -> String {
    Uuid::new_v4().simple().to_string()
}

/// Renames an entry if the new name is free.
pub(super) fn rename_no_replace(
    from: impl AsFd,
    name: impl Arg + Copy,
    to: impl AsFd,
    new_name: impl Arg + Copy,
) -> Result<(), Errno> {
    let (from, to) = (from.as_fd(), to.as_fd());
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        // NFS and others know no such flag.
        Err(Errno::INVAL) => rename_where_free(from, name, to, new_name),
        renamed => renamed,
    }
}

/// The same in two steps. Nothing is replaced that has content, whoever else creates the new name meanwhile: the kernel renames a directory onto
/// nothing but an empty one, and a link never replaces a file.
fn rename_where_free(
    from: BorrowedFd<'_>,
    name: impl Arg + Copy,
    to: BorrowedFd<'_>,
    new_name: impl Arg + Copy,
) -> Result<(), Errno> {
    let source = status_of(from, name)?.ok_or(Errno::NOENT)?;
    let target = status_of(to, new_name)?;
    // A directory has one name only. A file with both names was left by a killed host.
    let is_same = |it: &Statx| Inode::of(it) == Inode::of(&source);
    let is_directory = FileType::from_raw_mode(source.stx_mode.into()) == FileType::Directory;
    match (target, is_directory) {
        (Some(target), false) if is_same(&target) => {}
        (Some(_), _) => return Err(Errno::EXIST),
        (None, true) => return rustix::fs::renameat(from, name, to, new_name),
        (None, false) => rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?,
    }
    rustix::fs::unlinkat(from, name, AtFlags::empty())
}

/// The current state of an entry of a directory. A link is not followed.
pub(super) fn status_of(directory: impl AsFd, name: impl Arg) -> Result<Option<Statx>, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(directory, name, flags, Inode::FIELDS) {
        Err(Errno::NOENT) => Ok(None),
        status => status.map(Some),
    }
}

/// The current state of a place below the root of a pool. `None`: it does not exist, or the directory that contains it.
pub(super) fn status_at(root: &OwnedFd, place: &Place) -> Result<Option<Statx>, MountError> {
    let parent = match open_confined(root, place.path.parent(), DIRECTORY) {
        Err(Errno::NOENT) => return Ok(None),
        parent => parent.map_err(|errno| place.failed("open the parent directory", errno))?,
    };
    let status = status_of(&parent, place.path.name());
    status.map_err(|errno| place.failed("stat", errno))
}

pub(super) fn make_folder(directory: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(directory, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    open_confined(directory, name, DIRECTORY)
}

//! An open pool: its directory, the host's folders in it, the ledger, and the copies under way.

use crate::confine::open_confined;
use crate::failure::kernel;
use crate::pool::copies::Copies;
use crate::pool::ledger::{Inode, Ledger};
use crate::pool::place::Place;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags, Statx};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use wasmount_core::mounter::MountError;

const TRASH_NAME: &str = "trash";
const UNFINISHED_NAME: &str = "unfinished";
const GROUPS_NAME: &str = "groups";
/// To be read, and to be synced.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// What a directory is known by: major and minor number of its device, and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity(u32, u32, u64);

impl Identity {
    /// Of a `statx`.
    pub(super) fn of(status: &Statx) -> Self {
        Self(status.stx_dev_major, status.stx_dev_minor, status.stx_ino)
    }

    /// Major and minor number.
    pub(super) fn device(self) -> (u32, u32) {
        (self.0, self.1)
    }
}

/// An open pool. While one process has it, no other changes it.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) root: OwnedFd,
    /// What is being deleted: out of the plugin's sight, and found again after a kill.
    pub(super) trash: OwnedFd,
    /// What in the trash could not be deleted yet.
    pub(super) stuck: Mutex<Vec<CString>>,
    /// What is being made: moved to its place when it is whole.
    pub(super) unfinished: OwnedFd,
    /// What is moved to several places at once, as long as it may be half done.
    pub(super) groups: OwnedFd,
    /// Written while a group is moved, or taken back; read while somebody looks what is there.
    pub(super) moving: RwLock<()>,
    /// A group may lie half moved in the pool.
    pub(super) is_half_moved: AtomicBool,
    pub(super) ledger: Ledger,
    pub(super) copies: Arc<Copies>,
    pub(super) identity: Identity,
    /// Random at each start, so that names never meet those of a killed process.
    start: u64,
    names: AtomicU64,
    /// Locked.
    _folder: OwnedFd,
}

impl Pool {
    /// Opens what lies in the host's folder of a pool.
    pub(super) fn with_folder(
        root: OwnedFd,
        folder: OwnedFd,
        identity: Identity,
    ) -> Result<Self, Errno> {
        let trash = make_folder(&folder, TRASH_NAME)?;
        let unfinished = make_folder(&folder, UNFINISHED_NAME)?;
        let groups = make_folder(&folder, GROUPS_NAME)?;
        let ledger = Ledger::open(&folder)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        rustix::fs::fsync(&folder)?;
        rustix::fs::fsync(&root)?;
        Ok(Self {
            root,
            trash,
            stuck: Mutex::default(),
            unfinished,
            groups,
            moving: RwLock::default(),
            // Of a killed host, perhaps.
            is_half_moved: AtomicBool::new(true),
            ledger,
            copies: Arc::default(),
            identity,
            start: random()?,
            names: AtomicU64::new(0),
            _folder: folder,
        })
    }

    /// The directory that holds a place, to act in and to sync.
    pub(super) fn parent(&self, place: &Place) -> Result<OwnedFd, MountError> {
        open_confined(&self.root, place.path.parent(), DIRECTORY)
            .map_err(|errno| place.failed("open the parent directory", errno))
    }

    /// What is at a place now; a link is not followed.
    pub(super) fn look(
        &self,
        parent: BorrowedFd<'_>,
        place: &Place,
    ) -> Result<Option<Statx>, MountError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match rustix::fs::statx(parent, place.path.name(), flags, Inode::FIELDS) {
            Ok(status) => Ok(Some(status)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(place.failed("stat", errno)),
        }
    }

    /// A name that nothing in the host's folders has.
    pub(super) fn fresh_name(&self) -> String {
        let name = self.names.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{name:x}", self.start)
    }

    /// Makes a place durable: the directory that holds it.
    pub(super) fn sync_parent(&self, parent: impl AsFd, place: &Place) -> Result<(), MountError> {
        rustix::fs::fsync(parent).map_err(|errno| place.failed("sync the parent directory", errno))
    }

    /// Moves what is finished to its place, if nothing is there; durable on return, with the ledger. The directory that holds the place is
    /// looked up only now: it may have been renamed since a long copy began.
    pub(super) fn finish(&self, name: &str, place: &Place) -> Result<(), MountError> {
        self.sync_ledger(place)?;
        let parent = self.parent(place)?;
        rename_no_replace(&self.unfinished, name, &parent, place.path.name()).map_err(|errno| {
            match errno {
                Errno::EXIST => place.otherwise_there("it appeared at this moment"),
                errno => place.failed("rename", errno),
            }
        })?;
        self.sync_parent(&parent, place)
    }

    pub(super) fn sync_ledger(&self, place: &Place) -> Result<(), MountError> {
        self.ledger
            .sync()
            .map_err(|error| ledger_failed(place, &error))
    }
}

/// An error of the ledger's file, on behalf of a place.
pub(super) fn ledger_failed(place: &Place, error: &std::io::Error) -> MountError {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    kernel("write the ledger", place, errno)
}

pub(super) fn rename_no_replace(
    from: impl AsFd,
    name: impl Arg,
    to: impl AsFd,
    new_name: impl Arg,
) -> Result<(), Errno> {
    rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE)
}

/// Names in one of the host's folders, without `.` and `..`.
pub(super) fn names(directory: impl AsFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

pub(super) fn make_folder(directory: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(directory, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    open_confined(directory, name, DIRECTORY)
}

fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    // Up to 256 bytes come whole (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

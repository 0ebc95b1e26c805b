//! An open pool: its directory, the host's folder in it, the ledger, and the copies under way.
//!
//! A process opens each directory once, however many backends name it: promises belong to the directory, not to a driver.

use crate::confine::{RESERVED_NAME, open_confined};
use crate::exclusive;
use crate::failure::{kernel, shown};
use crate::pool::copies::Copies;
use crate::pool::group_move;
use crate::pool::ledger::{Inode, Ledger};
use crate::pool::place::Place;
use crate::pool::trash;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags, Statx};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::HashMap;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};
use wasmount_core::mounter::MountError;

/// Pool and host's folder are the host's alone; volumes are reached through mounts, never through the pool's path.
const POOL_MODE: u32 = 0o700;
const TRASH_NAME: &str = "trash";
const UNFINISHED_NAME: &str = "unfinished";
const GROUPS_NAME: &str = "groups";
/// To be read, and to be synced.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A pool that is open, or being opened. Each has a lock of its own: one on storage that hangs keeps nobody from another.
type Slot = Arc<Mutex<Weak<Pool>>>;
/// Those of this process.
static OPEN: LazyLock<Mutex<HashMap<Identity, Slot>>> = LazyLock::new(Mutex::default);

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
    pub(super) copies: Copies,
    pub(super) identity: Identity,
    /// Random at each start, so that names never meet those of a killed process.
    start: u64,
    names: AtomicU64,
    /// Locked.
    _folder: OwnedFd,
}

impl Pool {
    /// Opens the pool at a path of the administrator's, which may lead through links; makes the directory if its parent exists.
    pub(super) fn open(name: &str, path: &Path) -> Result<Arc<Self>, MountError> {
        let what = || format!("pool `{}` at {}", shown(name), path.display());
        let failed = |operation: &str, errno: Errno| kernel(operation, what(), errno);
        match std::fs::DirBuilder::new().mode(POOL_MODE).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(MountError::Precondition {
                    path: path.display().to_string(),
                    what: format!(
                        "pool `{}` and the directory that should hold it do not exist: make them, or correct `grants.pools`",
                        shown(name)
                    ),
                });
            }
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                return Err(failed("make the directory", errno));
            }
        }
        let root = rustix::fs::open(path, DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| failed("open", errno))?;
        let (_, status) = Inode::of_fd(&root).map_err(|errno| failed("stat", errno))?;
        let identity = Identity::of(&status);
        let slot = slot(identity);
        let mut open = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = open.upgrade() {
            return Ok(pool);
        }
        let folder = make_folder(&root, RESERVED_NAME)
            .map_err(|errno| failed("make the folder .wasmount", errno))?;
        match exclusive::lock(&folder) {
            Ok(true) => {}
            Ok(false) => {
                return Err(MountError::InUse {
                    what: what(),
                    by: "another host process; give each host a pool of its own, or let both use one mounter (--mounter)".to_owned(),
                });
            }
            Err(errno) => return Err(failed("lock", errno)),
        }
        let pool =
            Self::with_folder(root, folder, identity).map_err(|errno| failed("open", errno))?;
        let pool = Arc::new(pool);
        group_move::settle(&pool)?;
        trash::resume(&pool).map_err(|errno| failed("clear what was left half done", errno))?;
        // Only now: what another call makes meanwhile would be taken for what was left.
        *open = Arc::downgrade(&pool);
        Ok(pool)
    }

    fn with_folder(root: OwnedFd, folder: OwnedFd, identity: Identity) -> Result<Self, Errno> {
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
            copies: Copies::default(),
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

/// The pool that this process has open in a directory. One that is being opened is waited for: what is asked about it hangs as well.
pub(super) fn opened(identity: Identity) -> Option<Arc<Pool>> {
    let slot = {
        let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(open.get(&identity)?)
    };
    let pool = slot.lock().unwrap_or_else(PoisonError::into_inner);
    pool.upgrade()
}

fn slot(identity: Identity) -> Slot {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    // A slot that somebody else holds is being opened.
    open.retain(|_, slot| {
        let is_open = |slot: &Slot| {
            let pool = slot.try_lock();
            pool.is_ok_and(|pool| pool.strong_count() > 0)
        };
        Arc::strong_count(slot) > 1 || is_open(slot)
    });
    Arc::clone(open.entry(identity).or_default())
}

fn make_folder(directory: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
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

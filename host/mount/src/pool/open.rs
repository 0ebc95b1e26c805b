//! Opens pools. A process opens each directory once, however many backends name it: promises belong to the directory and not to a driver.

use crate::confine::{DIRECTORY, RESERVED_NAME, open_confined};
use crate::exclusive;
use crate::failure::{kernel, shown};
use crate::observe::{Identity, observe};
use crate::plan::PoolPlace;
use crate::pool::handle::{Pool, errno_of, make_folder};
use crate::pool::{group_move, trash};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, Weak};
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;

/// Only the host may access the pool and its private directory; volumes are accessed through mounts and never through the pool's path.
const POOL_MODE: u32 = 0o700;
/// The file in the private directory of a pool on a server that its host has locked.
const LOCK_NAME: &str = "lock";

/// A pool that is open or being opened. Each has its own lock: one on storage that hangs does not block others.
type Slot = Arc<Mutex<Weak<Pool>>>;
/// The pools that this process ever opened: as many as the administrator granted.
static OPEN: LazyLock<Mutex<HashMap<Identity, Slot>>> = LazyLock::new(Mutex::default);

impl Pool {
    /// Opens the pool at a path of the administrator, which may lead through links. The directory is created if its parent exists.
    pub(super) fn open(name: &str, path: &Path) -> Result<Arc<Self>, MountError> {
        let what = || format!("pool `{}` at {}", shown(name), path.display());
        let failed = |operation: &str, errno: Errno| kernel(operation, what(), errno);
        match std::fs::DirBuilder::new().mode(POOL_MODE).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(MountError::precondition(
                    path.display(),
                    format!(
                        "pool `{}` and the directory that should hold it do not exist: make them, or correct `grants.pools`",
                        shown(name)
                    ),
                ));
            }
            Err(error) => return Err(failed("make the directory", errno_of(error))),
        }
        let root = rustix::fs::open(path, DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| failed("open", errno))?;
        Self::open_root(name, path, root, false)
    }

    /// Opens the pool in an opened directory. `is_on_server`: the host mounted it.
    pub(super) fn open_root(
        name: &str,
        path: &Path,
        root: OwnedFd,
        is_on_server: bool,
    ) -> Result<Arc<Self>, MountError> {
        let what = || format!("pool `{}` at {}", shown(name), path.display());
        let failed = |operation: &str, errno: Errno| kernel(operation, what(), errno);
        let identity = observe(&root)
            .map_err(|errno| failed("stat", errno))?
            .identity;
        let slot = Arc::clone(lock(&OPEN).entry(identity).or_default());
        let mut open = lock(&slot);
        if let Some(pool) = open.upgrade() {
            return Ok(pool);
        }
        let folder = make_folder(&root, RESERVED_NAME)
            .map_err(|errno| failed("make the folder .wasmount", errno))?;
        if !exclusive::lock(&folder).map_err(|errno| failed("lock", errno))? {
            return Err(MountError::in_use(
                what(),
                "another host process; give each host a pool of its own, or let both use one mounter (--mounter)",
            ));
        }
        let server_lock = match is_on_server {
            true => Some(lock_on_server(&folder, &what())?),
            false => None,
        };
        let pool = Self::with_folder(root, path, folder, identity, server_lock)
            .map_err(|errno| failed("open", errno))?;
        let pool = Arc::new(pool);
        drop(group_move::hold(&pool)?);
        trash::resume(&pool).map_err(|errno| failed("clean up unfinished work", errno))?;
        // Published only now: otherwise the unfinished work of a concurrent call would be treated as left over.
        *open = Arc::downgrade(&pool);
        Ok(pool)
    }
}

/// Locks a file, since other nodes know nothing of the lock on the directory.
fn lock_on_server(folder: &OwnedFd, what: &str) -> Result<OwnedFd, MountError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(folder, LOCK_NAME, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| kernel("open the lock of", what, errno))?;
    if exclusive::lock(&file).map_err(|errno| kernel("lock", what, errno))? {
        return Ok(file);
    }
    Err(MountError::under_way(format!(
        "the work of another host on {what} (it ends a minute after its last call there, or with its lease at the server)"
    )))
}

/// The directory of a pool that another process has open. `None`: none has, or there is no such directory.
pub(super) fn open_elsewhere(path: &Path) -> Option<OwnedFd> {
    let root = rustix::fs::open(path, DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    if opened(observe(&root).ok()?.identity).is_some() {
        return None;
    }
    let folder = open_confined(&root, RESERVED_NAME, DIRECTORY).ok()?;
    let locked = flock(&folder, FlockOperation::NonBlockingLockExclusive);
    (locked == Err(Errno::WOULDBLOCK)).then_some(root)
}

/// The pool that this process has open in a directory. If it is being opened, the call waits: a request to such a pool would hang as well.
fn opened(identity: Identity) -> Option<Arc<Pool>> {
    let slot = lock(&OPEN).get(&identity).cloned()?;
    lock(&slot).upgrade()
}

/// Refuses to mount a path that is being removed or renamed in an open pool, or that lies in one. Must be called after the journal records that the
/// mount is being made.
pub(crate) fn refuse_leaving(pool: impl AsFd, place: &PoolPlace) -> Result<(), MountError> {
    let seen = observe(pool).map_err(|errno| place.failed("statx", errno))?;
    match opened(seen.identity) {
        Some(pool) => pool.copies.refuse_leaving(&place.path, place),
        None => Ok(()),
    }
}

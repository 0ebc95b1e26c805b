//! Opens pools. A process opens each directory once, however many backends name it: promises belong to the directory and not to a driver.

use crate::confine::RESERVED_NAME;
use crate::exclusive;
use crate::failure::{kernel, shown};
use crate::observe::{Identity, observe};
use crate::plan::PoolPlace;
use crate::pool::handle::{DIRECTORY, Pool, errno_of, make_folder};
use crate::pool::{group_move, trash};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use wasmount_core::mounter::MountError;

/// Only the host may access the pool and its private directory; volumes are accessed through mounts and never through the pool's path.
const POOL_MODE: u32 = 0o700;

/// A pool that is open or being opened. Each has its own lock: one on storage that hangs does not block others.
type Slot = Arc<Mutex<Weak<Pool>>>;
/// The pools of this process.
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
                return Err(MountError::Precondition {
                    path: path.display().to_string(),
                    what: format!(
                        "pool `{}` and the directory that should hold it do not exist: make them, or correct `grants.pools`",
                        shown(name)
                    ),
                });
            }
            Err(error) => return Err(failed("make the directory", errno_of(error))),
        }
        let root = rustix::fs::open(path, DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| failed("open", errno))?;
        let identity = observe(&root)
            .map_err(|errno| failed("stat", errno))?
            .identity;
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
        let pool = Self::with_folder(root, path, folder, identity)
            .map_err(|errno| failed("open", errno))?;
        let pool = Arc::new(pool);
        group_move::settle(&pool)?;
        trash::resume(&pool).map_err(|errno| failed("clear what was left half done", errno))?;
        // Published only now: otherwise the unfinished work of a concurrent call would be treated as left over.
        *open = Arc::downgrade(&pool);
        Ok(pool)
    }
}

/// The pool that this process has open in a directory. If it is being opened, the call waits: a request to such a pool would hang as well.
fn opened(identity: Identity) -> Option<Arc<Pool>> {
    let slot = {
        let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(open.get(&identity)?)
    };
    let pool = slot.lock().unwrap_or_else(PoisonError::into_inner);
    pool.upgrade()
}

/// Refuses to mount a path that is being removed or renamed in an open pool, or that lies in one. Must be called after the journal records that the
/// mount is being made.
pub(crate) fn refuse_leaving(pool: impl AsFd, place: &PoolPlace) -> Result<(), MountError> {
    let seen = observe(pool).map_err(|errno| place.failed("statx", errno))?;
    if opened(seen.identity).is_some_and(|pool| pool.copies.is_leaving(&place.path)) {
        return Err(MountError::UnderWay {
            what: format!("the removal or rename of {place}"),
        });
    }
    Ok(())
}

fn slot(identity: Identity) -> Slot {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    // A slot that is locked elsewhere is being opened.
    open.retain(|_, slot| {
        let is_open = |slot: &Slot| {
            let pool = slot.try_lock();
            pool.is_ok_and(|pool| pool.strong_count() > 0)
        };
        Arc::strong_count(slot) > 1 || is_open(slot)
    });
    Arc::clone(open.entry(identity).or_default())
}

//! Who uses what in a pool, over all drivers of this process: two of them may have grants for one directory, and what one has staged from it
//! the other must not remove. Apart because a driver knows its own volumes only.
//!
//! A directory is known by what it is, not by the name or the path of a grant. It must not know how a driver tells what it uses.

use crate::pool::InUse;
use crate::pool::ledger::Inode;
use crate::pool::open::{Identity, Pool};
use crate::pool::place::Place;
use rustix::fs::{AtFlags, CWD};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Grants of this process whose drivers still have them.
static USERS: Mutex<Vec<User>> = Mutex::new(Vec::new());

/// What a driver found at its path, once it has.
pub(super) type Found = Arc<OnceLock<Identity>>;

#[derive(Clone)]
struct User {
    /// What the driver calls the pool.
    pool: String,
    directory: PathBuf,
    found: Found,
    in_use: Weak<dyn InUse>,
}

impl User {
    /// Only a path that its driver has not opened is looked at: it may lead to storage that hangs, which is that driver's trouble.
    fn is_at(&self, directory: &Path, identity: Identity) -> bool {
        match self.found.get() {
            Some(found) => *found == identity,
            None => self.directory == directory || leads_to(&self.directory, identity),
        }
    }
}

/// A driver may use a directory from now on.
pub(super) fn add(pool: &str, directory: &Path, in_use: Weak<dyn InUse>) -> Found {
    let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    users.retain(|user| user.in_use.strong_count() > 0);
    let found = Found::default();
    users.push(User {
        pool: pool.to_owned(),
        directory: directory.to_owned(),
        found: Arc::clone(&found),
        in_use,
    });
    found
}

/// Whether a volume of any driver uses something, or what lies in it, or what it lies in. `directory` is the path that led to the pool.
pub(super) fn is_used(pool: &Pool, directory: &Path, place: &Place) -> bool {
    // A copy: no lock is held while the kernel is asked.
    let users = USERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    users.iter().any(|user| {
        let in_use = user.in_use.upgrade();
        let in_use = in_use.filter(|_| user.is_at(directory, pool.identity));
        in_use.is_some_and(|in_use| in_use.uses(&user.pool, &|path| place.overlaps(path)))
    })
}

/// Whether an administrator's path, which may go through links, leads to a directory now. What the kernel knows of it is enough: a server
/// that hangs behind another driver's pool must not be asked.
pub(super) fn leads_to(path: &Path, identity: Identity) -> bool {
    let status = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, Inode::FIELDS);
    status.is_ok_and(|status| Identity::of(&status) == identity)
}

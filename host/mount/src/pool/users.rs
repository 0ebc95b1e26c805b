//! The users of paths in a pool, over all drivers of this process: two drivers may have grants for one directory, and one of them must not remove
//! what the other has staged from it.
//!
//! A directory is identified by its inode, not by the name or the path of a grant. A query may access the storage of the queried driver, which must
//! not delay the caller, so it runs on a separate thread with a deadline, unless memory shows that there is nothing to query. This module does not know how a driver determines what it uses.

use crate::mountinfo::{self, MountLine};
use crate::observe::{Identity, mount_id};
use crate::pool::InUse;
use crate::pool::handle::Pool;
use crate::pool::ledger::Inode;
use crate::pool::place::Place;
use crate::threads::within;
use rustix::fs::{AtFlags, CWD};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;

/// How long a driver may take to report what it uses. 2 s: it takes microseconds, and a removal must not wait for the storage of another driver.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Grants of this process whose drivers still hold them.
static USERS: Mutex<Vec<Weak<User>>> = Mutex::new(Vec::new());

/// One grant of a driver.
pub(super) struct User {
    /// The driver's name of the pool.
    pool: String,
    pub(super) directory: PathBuf,
    /// The directory that the driver found at its path, after it was resolved.
    pub(super) found: OnceLock<Identity>,
    in_use: Arc<dyn InUse>,
    /// The last query that was not answered in time; dropped when it is answered. There is only one at a time: another would hang too.
    late: Mutex<Weak<AtomicBool>>,
}

impl User {
    /// Whether it uses a place. `None`: it does not answer in time, and may use it.
    fn uses(self: &Arc<Self>, pool: &Pool, place: &Place) -> Option<bool> {
        let is_here = match self.found.get() {
            Some(found) if *found != pool.identity => return Some(false),
            Some(_) => true,
            None => self.directory == pool.path,
        };
        if is_here
            && !self
                .in_use
                .may_use(&self.pool, &|path| place.overlaps(path))
        {
            return Some(false);
        }
        if lock(&self.late).strong_count() > 0 {
            return self.unanswered(is_here, pool);
        }
        let leads_here = Arc::new(AtomicBool::new(is_here));
        let (user, identity, place) = (Arc::clone(self), pool.identity, place.clone());
        let leads = Arc::clone(&leads_here);
        let answer = within(ANSWER_WITHIN, "pool-user", move || {
            let is_here = is_here || leads_to(&user.directory, identity);
            leads.store(is_here, Ordering::Release);
            is_here && user.in_use.uses(&user.pool, &|path| place.overlaps(path))
        });
        match answer {
            Ok(Some(uses)) => Some(uses),
            Ok(None) => {
                *lock(&self.late) = Arc::downgrade(&leads_here);
                self.unanswered(leads_here.load(Ordering::Acquire), pool)
            }
            Err(error) => {
                tracing::warn!(%error, "no thread to query the volumes of a driver");
                self.unanswered(is_here, pool)
            }
        }
    }

    /// The driver's path leads through storage that hangs. The pool itself does not hang, or this check would not have been reached, so a path on
    /// another file system leads elsewhere. If that cannot be determined, nothing is removed.
    fn unanswered(&self, is_here: bool, pool: &Pool) -> Option<bool> {
        let may_be_here = is_here
            || mountinfo::read().map_or(true, |table| {
                mount_id(&pool.root).map_or(true, |id| shares_device(&table, id, &self.directory))
            });
        tracing::warn!(pool = %self.pool, directory = %self.directory.display(), may_be_here, "the storage of a driver's pool does not answer");
        (!may_be_here).then_some(false)
    }
}

/// Registers a driver that may use a directory from now on, until the result is dropped.
pub(super) fn add(pool: &str, directory: &Path, in_use: Arc<dyn InUse>) -> Arc<User> {
    let mut users = lock(&USERS);
    users.retain(|user| user.strong_count() > 0);
    let user = Arc::new(User {
        pool: pool.to_owned(),
        directory: directory.to_owned(),
        found: OnceLock::new(),
        in_use,
        late: Mutex::default(),
    });
    users.push(Arc::downgrade(&user));
    user
}

/// Refuses a path that a volume of any driver uses, or that lies in a used one or contains one. Called right before a removal, after the path was
/// marked as leaving: a later stage sees the mark ([`super::refuse_leaving`]), an earlier stage is seen here.
pub(super) fn refuse_used(pool: &Pool, place: &Place) -> Result<(), MountError> {
    // A copy of the list: no lock is held during a query.
    let users: Vec<_> = lock(&USERS).iter().filter_map(Weak::upgrade).collect();
    for user in users {
        match user.uses(pool, place) {
            Some(false) => {}
            Some(true) => {
                return Err(
                    place.in_use("a volume is staged from it, or a mount of it lives on in another mount namespace: unpublish and unstage it; `losetup -j` and `grep` of the device's number in /proc/*/mountinfo show its users")
                );
            }
            None => {
                return Err(MountError::hung(
                    place,
                    format!(
                        "whether a volume is staged from it is unknown: storage of a driver with the pool {} does not answer; look at the server or disk behind it",
                        user.directory.display()
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Whether an administrator's path, which may lead through links, leads to a directory now. Attributes that the kernel has in memory are sufficient.
pub(super) fn leads_to(path: &Path, identity: Identity) -> bool {
    let status = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, Inode::FIELDS);
    status.is_ok_and(|status| Identity::of(&status) == identity)
}

/// Whether a literal path lies on the file system that a mount shows. Links are not followed, because that might hang.
fn shares_device(table: &[MountLine], mount_id: u64, path: &Path) -> bool {
    let own = table.iter().find(|line| line.mount_id == mount_id);
    match (own, mountinfo::covering(table, path)) {
        (Some(own), Some(nearest)) => own.device == nearest.device,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_held_against_the_topmost_mount_above_it() {
        let table = mountinfo::parse(
            b"1 0 8:1 / / rw - ext4 /dev/a rw
2 1 0:40 / /hung rw - fuse dead rw
3 1 8:2 / /data rw - ext4 /dev/b rw
4 3 8:3 / /data rw - ext4 /dev/c rw
5 1 8:3 /pool /other rw - ext4 /dev/c rw
",
        );
        for (mount, path, shared) in [
            (1, "/pool", true),
            (1, "/hungry", true),
            (1, "/hung", false),
            (1, "/hung/pool", false),
            (4, "/data/pool", true),
            (3, "/data/pool", false),
            (5, "/data/pool", true),
            (4, "/pool", false),
            // Its mount is not known.
            (9, "/hung", true),
        ] {
            let found = shares_device(&table, mount, Path::new(path));
            assert_eq!(found, shared, "{mount} {path}");
        }
    }
}

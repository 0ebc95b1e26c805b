//! Who uses what in a pool, over all drivers of this process: two of them may have grants for one directory, and what one has staged from it the
//! other must not remove.
//!
//! A directory is known by what it is, not by the name or the path of a grant. Asking may touch the storage of whoever is asked, which is no business
//! of whoever asks: it is done on a thread aside, with a deadline. It must not know how a driver tells what it uses.

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
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use wasmount_core::mounter::MountError;

/// How long a driver may take to say what it uses. 2 s: it takes microseconds, and a removal must not wait for what is not its own.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

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
    /// The last question that was not answered in time; gone when it is. One at a time: the next would only hang beside it.
    late: Arc<Mutex<Weak<()>>>,
}

/// What is known when the time is over.
enum Use {
    No,
    Yes,
    /// It may.
    Unknown,
}

impl User {
    fn ask(&self, pool: &Pool, place: &Place) -> Use {
        let is_here = match self.found.get() {
            Some(found) if *found != pool.identity => return Use::No,
            Some(_) => true,
            None => self.directory == pool.path,
        };
        let Some(in_use) = self.in_use.upgrade() else {
            return Use::No;
        };
        if lock(&self.late).strong_count() > 0 {
            return self.unanswered(is_here, pool);
        }
        let question = Arc::new(());
        let asked = Arc::downgrade(&question);
        let leads_here = Arc::new(AtomicBool::new(is_here));
        let (user, identity, place) = (self.clone(), pool.identity, place.clone());
        let leads = Arc::clone(&leads_here);
        let answer = within(ANSWER_WITHIN, "pool-user", move || {
            let _question = question;
            let is_here = is_here || leads_to(&user.directory, identity);
            leads.store(is_here, Ordering::Release);
            is_here && in_use.uses(&user.pool, &|path| place.overlaps(path))
        });
        match answer {
            Ok(Some(true)) => Use::Yes,
            Ok(Some(false)) => Use::No,
            Ok(None) => {
                *lock(&self.late) = asked;
                self.unanswered(leads_here.load(Ordering::Acquire), pool)
            }
            Err(error) => {
                tracing::warn!(%error, "no thread to query the volumes of a driver");
                self.unanswered(is_here, pool)
            }
        }
    }

    /// Its path leads through storage that hangs. The pool does not hang, or nobody would have come to this question, so a path on another
    /// file system than the pool's leads elsewhere. Where that cannot be told, in doubt nothing is removed.
    fn unanswered(&self, is_here: bool, pool: &Pool) -> Use {
        let may_be_here = is_here
            || mountinfo::read().map_or(true, |table| {
                mount_id(&pool.root).map_or(true, |id| shares_device(&table, id, &self.directory))
            });
        tracing::warn!(pool = %self.pool, directory = %self.directory.display(), may_be_here, "the storage of a driver's pool does not answer");
        if may_be_here { Use::Unknown } else { Use::No }
    }
}

/// A driver may use a directory from now on.
pub(super) fn add(pool: &str, directory: &Path, in_use: Weak<dyn InUse>) -> Found {
    let mut users = lock(&USERS);
    users.retain(|user| user.in_use.strong_count() > 0);
    let found = Found::default();
    users.push(User {
        pool: pool.to_owned(),
        directory: directory.to_owned(),
        found: Arc::clone(&found),
        in_use,
        late: Arc::new(Mutex::new(Weak::new())),
    });
    found
}

/// Refuses what a volume of any driver uses, or what lies in it, or what it lies in. Asked right before a destruction, of
/// what is marked as leaving: who stages it later sees the mark ([`super::refuse_leaving`]), who does so before is seen here.
pub(super) fn refuse_used(pool: &Pool, place: &Place) -> Result<(), MountError> {
    // A copy: no lock is held while anybody is asked.
    let users = lock(&USERS).clone();
    for user in users {
        match user.ask(pool, place) {
            Use::No => {}
            Use::Yes => {
                return Err(
                    place.in_use("a volume is staged from it, or a mount of it lives on in another mount namespace: unpublish and unstage it; `losetup -j` and `grep` of the device's number in /proc/*/mountinfo name who has it")
                );
            }
            Use::Unknown => {
                return Err(MountError::Hung {
                    what: place.to_string(),
                    reason: format!(
                        "whether a volume is staged from it cannot be told: storage of a driver with the pool {} does not answer; look at the server or disk behind it",
                        user.directory.display()
                    ),
                });
            }
        }
    }
    Ok(())
}

/// Whether an administrator's path, which may go through links, leads to a directory now. Attributes that the kernel has are enough.
pub(super) fn leads_to(path: &Path, identity: Identity) -> bool {
    let status = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, Inode::FIELDS);
    status.is_ok_and(|status| Identity::of(&status) == identity)
}

/// Whether a path, as it is written, lies on the file system that a mount shows. Links are not followed: that might hang.
fn shares_device(table: &[MountLine], mount_id: u64, path: &Path) -> bool {
    let own = table.iter().find(|line| line.mount_id == mount_id);
    let above = table
        .iter()
        .filter(|line| path.starts_with(&line.mount_point));
    // The last of equals is the topmost.
    let nearest = above.max_by_key(|line| line.mount_point.components().count());
    match (own, nearest) {
        (Some(own), Some(nearest)) => own.device == nearest.device,
        _ => true,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is one step, so what a panicking thread leaves is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            // Nothing is known of its mount.
            (9, "/hung", true),
        ] {
            let found = shares_device(&table, mount, Path::new(path));
            assert_eq!(found, shared, "{mount} {path}");
        }
    }
}

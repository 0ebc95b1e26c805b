//! Pools: the directories whose trees and images a backend may use, and the calls of the contract's `pool` interface. Apart from mounts
//! because a guest asks for these and a client never does.
//!
//! ```text
//! Pools ──▶ open       one directory, once a process, its host's folder `.wasmount`
//!             ├──▶ directory, image, copy     one file a kind of thing
//!             ├──▶ census, still              whether a copy is of one moment
//!             ├──▶ extents                    what images hold, and how two differ
//!             ├──▶ copies, users              what is under way, and in use: it stays
//!             ├──▶ promise, taken             capacity, quota; what of it is on the disk already
//!             ├──▶ trash, group_move          every deletion; what comes to several places at once
//!             └──▶ ledger                     what is promised, what was copied from what
//! ```
//!
//! Everything here blocks; calls of guests are served on threads of their driver. A change is on stable storage, with its parent directory,
//! when its call returns. It must not know what a driver is.

mod copies;
mod copy;
mod copy_data;
mod copy_images;
mod copy_job;
mod copy_links;
mod copy_tree;
mod copying;
mod directory;
mod extents;
mod group_move;
mod handle;
mod image;
mod ledger;
mod listing;
mod open;
mod place;
mod promise;
mod still;
mod taken;
mod trash;
mod tree_fingerprint;
mod users;
mod wanted;

use crate::failure::shown;
use crate::freeze::Freezer;
use crate::threads::Threads;
use copies::{Claim, Waiting};
use copy_job::Job;
use copying::Copying;
use handle::Pool;
pub(crate) use open::refuse_leaving;
use place::Place;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use wanted::{Pair, Wanted};
use wasmount_core::document::PoolGrant;
use wasmount_core::fault::Blame;
use wasmount_core::mounter::MountError;
use wasmount_core::pool::{PoolCall, PoolReply};

/// Tells what staged volumes use.
pub(crate) trait InUse: Send + Sync {
    /// Whether the source of a staged or published volume is a path in a pool that `touches` is true of.
    fn uses(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> bool;
}

/// The pools of one driver.
pub(crate) struct Pools {
    granted: BTreeMap<String, Granted>,
    freezer: Arc<Freezer>,
    /// Known to all drivers as long as this lives.
    _in_use: Arc<dyn InUse>,
}

/// What a call has come to at once.
enum Begun {
    Done(PoolReply),
    /// A copy is under way, or is to be made by whoever has the job.
    Copy(Option<(Job, Claim)>, Waiting),
}

struct Granted {
    grant: PoolGrant,
    /// Opened at the first call that needs it: a pool that cannot be opened is nobody else's trouble.
    open: Mutex<Option<Arc<Pool>>>,
    found: users::Found,
}

impl Pools {
    /// Takes the grants; opens nothing. A pool's directory is made at its first use if its parent exists.
    pub(crate) fn new(
        grants: &BTreeMap<String, PoolGrant>,
        in_use: Arc<dyn InUse>,
        freezer: Arc<Freezer>,
    ) -> Self {
        let granted = |(name, grant): (&String, &PoolGrant)| {
            let granted = Granted {
                grant: grant.clone(),
                found: users::add(name, &grant.path, Arc::downgrade(&in_use)),
                open: Mutex::default(),
            };
            (name.clone(), granted)
        };
        Self {
            granted: grants.iter().map(granted).collect(),
            freezer,
            _in_use: in_use,
        }
    }

    /// One call of a guest, on the threads of its driver. A copy goes on when its caller is gone, and takes one thread however many wait.
    pub(crate) async fn serve(
        self: Arc<Self>,
        threads: &Threads,
        call: PoolCall,
    ) -> Result<PoolReply, MountError> {
        match threads.pool.run(move || self.begin(call)).await? {
            Begun::Done(reply) => Ok(reply),
            Begun::Copy(ours, waiting) => {
                if let Some((job, claim)) = ours {
                    let threads = threads.clone();
                    tokio::spawn(
                        async move { claim.end(threads.copies.run(move || job.run()).await) },
                    );
                }
                waiting
                    .outcome(copies::WAIT)
                    .await
                    .map(|()| PoolReply::Done)
            }
        }
    }

    /// The same on the thread of a test, for as long as it takes; a copy that another call makes is [`MountError::UnderWay`] at once.
    #[cfg(test)]
    pub(crate) fn call(&self, call: PoolCall) -> Result<PoolReply, MountError> {
        match self.begin(call)? {
            Begun::Done(reply) => Ok(reply),
            Begun::Copy(ours, waiting) => {
                if let Some((job, claim)) = ours {
                    claim.end(job.run());
                }
                waiting.now().map(|()| PoolReply::Done)
            }
        }
    }

    /// Does what is done at once, and begins what is not.
    fn begin(&self, call: PoolCall) -> Result<Begun, MountError> {
        let reply = match call {
            PoolCall::Names => PoolReply::Names(self.granted.keys().cloned().collect()),
            PoolCall::Capacity { pool } => {
                PoolReply::Capacity(promise::capacity(&*self.open(&pool)?, &pool)?)
            }
            PoolCall::Stat { pool, path } => {
                let place = Place::parse(&pool, &path)?;
                let open = self.open(&pool)?;
                // A guest takes what is there for a copy that is done.
                let _held = group_move::hold(&open)?;
                PoolReply::Stat(listing::stat(&open, &place)?)
            }
            PoolCall::List {
                pool,
                path,
                after,
                limit,
            } => {
                let place = match path.as_str() {
                    "" => None,
                    path => Some(Place::parse(&pool, path)?),
                };
                let open = self.open(&pool)?;
                let _held = group_move::hold(&open)?;
                let after = after.as_deref();
                PoolReply::List(listing::list(&open, &pool, place.as_ref(), after, limit)?)
            }
            PoolCall::SetQuota { pool, path, bytes } => {
                let place = Place::parse(&pool, &path)?;
                let open = self.open_for(&place, &pool)?;
                let enforced = promise::set_quota(&open, &place, bytes)?;
                PoolReply::Quota { enforced }
            }
            PoolCall::CreateDirectory { pool, path } => {
                let place = Place::parse(&pool, &path)?;
                done(directory::create(&*self.open_for(&place, &pool)?, &place))?
            }
            PoolCall::RemoveDirectory { pool, path } => {
                let place = Place::parse(&pool, &path)?;
                let open = self.open(&pool)?;
                let _leaving = open.copies.leave(&place)?;
                let unused = || self.refuse_used(&open, &pool, &place);
                done(directory::remove(&open, &place, unused))?
            }
            PoolCall::SetPermissions {
                pool,
                path,
                mode,
                uid,
                gid,
            } => {
                let place = Place::parse(&pool, &path)?;
                let open = self.open_for(&place, &pool)?;
                done(directory::set_permissions(&open, &place, mode, uid, gid))?
            }
            PoolCall::Rename {
                pool,
                source,
                target,
            } => {
                let Pair { source, target } = Pair::parse(&pool, &source, &target)?;
                let open = self.open_for(&target, &pool)?;
                let _leaving = open.copies.leave(&source)?;
                let unused = || self.refuse_used(&open, &pool, &source);
                done(directory::rename(&open, &source, &target, unused))?
            }
            PoolCall::CreateImage {
                pool,
                path,
                size_bytes,
            } => {
                let place = Place::parse(&pool, &path)?;
                done(image::create(
                    &*self.open_for(&place, &pool)?,
                    &place,
                    size_bytes,
                ))?
            }
            PoolCall::ResizeImage {
                pool,
                path,
                size_bytes,
            } => {
                let place = Place::parse(&pool, &path)?;
                done(image::resize(
                    &*self.open_for(&place, &pool)?,
                    &place,
                    size_bytes,
                ))?
            }
            PoolCall::RemoveImage { pool, path } => {
                let place = Place::parse(&pool, &path)?;
                let open = self.open(&pool)?;
                let _leaving = open.copies.leave(&place)?;
                let unused = || self.refuse_used(&open, &pool, &place);
                done(image::remove(&open, &place, unused))?
            }
            PoolCall::AllocatedExtents {
                pool,
                path,
                offset,
                limit,
            } => {
                let place = Place::parse(&pool, &path)?;
                let open = self.open(&pool)?;
                PoolReply::Extents(extents::allocated(&open, &place, offset, limit)?)
            }
            PoolCall::ChangedExtents {
                pool,
                base,
                target,
                offset,
                limit,
            } => {
                let base = Place::parse(&pool, &base)?;
                let target = Place::parse(&pool, &target)?;
                let open = self.open(&pool)?;
                PoolReply::Extents(extents::changed(&open, &base, &target, offset, limit)?)
            }
            PoolCall::CloneImage {
                pool,
                source,
                target,
            } => {
                let wanted = Wanted::Image(Pair::parse(&pool, &source, &target)?);
                return self.begin_copy(&pool, wanted);
            }
            PoolCall::CloneImages { pool, copies } => {
                let wanted = Wanted::group(&pool, &copies)?;
                return self.begin_copy(&pool, wanted);
            }
            PoolCall::CloneDirectory {
                pool,
                source,
                target,
            } => {
                let wanted = Wanted::Directory(Pair::parse(&pool, &source, &target)?);
                return self.begin_copy(&pool, wanted);
            }
        };
        Ok(Begun::Done(reply))
    }

    fn begin_copy(&self, pool: &str, wanted: Wanted) -> Result<Begun, MountError> {
        let may_copy_all = self.granted(pool)?.grant.full_copies;
        let job = Job {
            pool: self.open(pool)?,
            copying: match wanted {
                // A full copy takes too long to be of one moment with others.
                Wanted::Images(_) => Copying::Shared,
                _ if may_copy_all => Copying::SharedOrFull,
                _ => Copying::Shared,
            },
            wanted,
            freezer: Arc::clone(&self.freezer),
        };
        // Without a thread for copies, which others may have for hours.
        if job.is_done()? {
            return Ok(Begun::Done(PoolReply::Done));
        }
        let (claim, waiting) = copies::begin(&job.pool.copies, &job.wanted)?;
        Ok(Begun::Copy(claim.map(|claim| (job, claim)), waiting))
    }

    fn granted(&self, pool: &str) -> Result<&Granted, MountError> {
        self.granted
            .get(pool)
            .ok_or_else(|| MountError::NotGranted {
                step: "pool".to_owned(),
                reason: format!(
                    "pool `{}` is not in `grants.pools` of the backend document",
                    shown(pool)
                ),
                blame: Blame::word(pool),
            })
    }

    fn open(&self, pool: &str) -> Result<Arc<Pool>, MountError> {
        let granted = self.granted(pool)?;
        let mut open = granted.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*open {
            if !users::leads_to(&granted.grant.path, open.identity) {
                return Err(MountError::Unusable {
                    what: format!("pool `{}` at {}", shown(pool), granted.grant.path.display()),
                    reason: "another directory, or none, is there than when the host opened it; put the first one back, or restart the host to use this one".to_owned(),
                });
            }
            group_move::settle(open)?;
            return Ok(Arc::clone(open));
        }
        let opened = Pool::open(pool, &granted.grant.path)?;
        granted.found.get_or_init(|| opened.identity);
        Ok(Arc::clone(open.insert(opened)))
    }

    /// To make or change something there.
    fn open_for(&self, place: &Place, pool: &str) -> Result<Arc<Pool>, MountError> {
        let open = self.open(pool)?;
        open.copies.refuse_leaving(place)?;
        Ok(open)
    }

    /// What a staged volume of any driver uses stays where it is, whatever the guest says. Asked right before the destruction, of what is
    /// marked as leaving: who stages it later sees the mark ([`refuse_leaving`]), who does so before is seen here.
    fn refuse_used(&self, open: &Pool, pool: &str, place: &Place) -> Result<(), MountError> {
        users::refuse_used(open, &self.granted(pool)?.grant.path, place)
    }
}

fn done(change: Result<(), MountError>) -> Result<PoolReply, MountError> {
    change.map(|()| PoolReply::Done)
}

#[cfg(test)]
mod tests;

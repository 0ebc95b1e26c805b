//! Pools: the directories whose trees and images a backend may use, and the calls of the contract's `pool` interface. They are separate from mounts
//! because guests call them and CSI clients never do.
//!
//! Everything here blocks; calls of guests are served on threads of their driver. A change is on stable storage, with its parent directory, when its
//! call returns, or after [`PoolCall::Sync`]. This module does not know what a driver is.

mod copies;
mod copy;
mod directory;
mod extents;
mod group_move;
mod handle;
mod image;
mod ledger;
mod listing;
pub(crate) mod mounted;
mod open;
mod place;
mod promise;
mod trash;
mod users;

use crate::failure::shown;
use crate::freeze::Freezer;
use crate::plan::pool_not_granted;
use crate::threads::Threads;
use copies::{Claim, CopyRequest, Pair, Waiting};
use copy::Job;
use handle::Pool;
use mounted::{MountedPool, MountedPools};
use open::open_elsewhere;
pub(crate) use open::refuse_leaving;
use place::Place;
use rustix::fs::FileType;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wasmount_core::document::{PoolGrant, PoolStorage};
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_core::pool::{PoolCall, PoolEntry, PoolReply};

/// Reports what staged volumes use.
pub(crate) trait InUse: Send + Sync {
    /// The same as [`InUse::uses`] from memory alone, without access to storage: `true` if it is not certain.
    fn may_use(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> bool;

    /// Whether the source of a staged or published volume is a path in a pool for which `touches` returns true.
    fn uses(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> bool;
}

/// The pools of one driver.
pub(crate) struct Pools {
    granted: BTreeMap<String, Granted>,
    freezer: Arc<Freezer>,
}

/// The result of the part of a call that is done at once.
enum Begun {
    Done(PoolReply),
    /// A copy is running, or the owner of the job must run it.
    Copy(Option<(Job, Claim)>, Waiting),
}

struct Granted {
    full_copies: bool,
    storage: Storage,
}

enum Storage {
    Directory(Directory),
    Mounted(Arc<MountedPool>),
}

/// A pool in a directory of the administrator.
struct Directory {
    /// Opened at the first call that needs it: a pool that cannot be opened must not affect others.
    open: Mutex<Option<Arc<Pool>>>,
    /// It has the path. All drivers of this process can query it while this lives.
    user: Arc<users::User>,
}

impl Pools {
    /// Stores the grants and opens nothing. A pool's directory is created at its first use if its parent exists.
    pub(crate) fn new(
        driver: &DriverName,
        grants: &BTreeMap<String, PoolGrant>,
        in_use: Arc<dyn InUse>,
        freezer: Arc<Freezer>,
        mounted: &MountedPools,
    ) -> Self {
        let granted = grants.iter().map(|(name, grant)| {
            let storage = match &grant.storage {
                PoolStorage::Directory(path) => Storage::Directory(Directory {
                    user: users::add(name, path, Arc::clone(&in_use)),
                    open: Mutex::default(),
                }),
                PoolStorage::Mount(mount) => {
                    Storage::Mounted(mounted.of(driver, name, mount, &in_use))
                }
            };
            let granted = Granted {
                full_copies: grant.full_copies,
                storage,
            };
            (name.clone(), granted)
        });
        Self {
            granted: granted.collect(),
            freezer,
        }
    }

    /// Serves one call of a guest, on the threads of its driver. A copy continues after its caller is gone, and uses one thread however many callers
    /// wait.
    pub(crate) async fn serve(
        self: Arc<Self>,
        threads: &Threads,
        call: PoolCall,
    ) -> Result<PoolReply, MountError> {
        if call == PoolCall::Names {
            return self.names();
        }
        let (pool, _) = call.pool_and_paths();
        let granted = pool.and_then(|pool| self.granted.get(pool));
        let Some(Storage::Mounted(mounted)) = granted.map(|it| &it.storage) else {
            return self.serve_on(threads, call).await;
        };
        let mounted = Arc::clone(mounted);
        mounted.keep_while_used();
        let served = self.serve_on(&mounted.threads, call).await;
        mounted.keep_while_used();
        served.map_err(|error| mounted.explain(error))
    }

    async fn serve_on(
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

    /// Does the part of a call that is done at once, and starts a copy.
    fn begin(&self, call: PoolCall) -> Result<Begun, MountError> {
        let done = |()| PoolReply::Done;
        let reply = match call {
            PoolCall::Names => self.names(),
            PoolCall::Capacity { pool } => {
                promise::capacity(&*self.open(&pool)?, &pool).map(PoolReply::Capacity)
            }
            PoolCall::Stat { pool, path } => self.stat(&pool, &path).map(PoolReply::Stat),
            PoolCall::List {
                pool,
                path,
                after,
                limit,
            } => {
                let place = (!path.is_empty()).then(|| Place::parse(&pool, &path));
                let (place, open) = (place.transpose()?, self.open(&pool)?);
                listing::list(&open, &pool, place.as_ref(), after.as_deref(), limit)
                    .map(PoolReply::List)
            }
            PoolCall::SetQuota { pool, path, bytes } => {
                let (open, place) = self.at_to_change(&pool, &path)?;
                promise::set_quota(&open, &place, bytes)
                    .map(|enforced| PoolReply::Quota { enforced })
            }
            PoolCall::AllocatedExtents {
                pool,
                path,
                offset,
                limit,
            } => {
                let (open, place) = self.at(&pool, &path)?;
                extents::allocated(&open, &place, offset, limit).map(PoolReply::Extents)
            }
            PoolCall::ChangedExtents {
                pool,
                base,
                target,
                offset,
                limit,
            } => {
                let base = Place::parse(&pool, &base)?;
                let (open, target) = self.at(&pool, &target)?;
                extents::compare(&open, &base, &target, offset, limit, extents::BUDGET)
                    .map(|(extents, _)| PoolReply::Extents(extents))
            }
            PoolCall::CreateDirectory { pool, path } => {
                let (open, place) = self.at_to_change(&pool, &path)?;
                directory::create(&open, &place).map(done)
            }
            PoolCall::RemoveDirectory { pool, path } => {
                let (open, place) = self.at(&pool, &path)?;
                trash::remove(&open, &place, FileType::Directory).map(done)
            }
            PoolCall::SetPermissions {
                pool,
                path,
                mode,
                uid,
                gid,
            } => {
                let (open, place) = self.at_to_change(&pool, &path)?;
                directory::set_permissions(&open, &place, mode, uid, gid).map(done)
            }
            PoolCall::Rename {
                pool,
                source,
                target,
            } => {
                let source = Place::parse(&pool, &source)?;
                let (open, target) = self.at_to_change(&pool, &target)?;
                directory::rename(&open, &source, &target).map(done)
            }
            PoolCall::Sync { pool, paths } => {
                let places = paths.iter().map(|path| Place::parse(&pool, path));
                let places: Vec<_> = places.collect::<Result<_, _>>()?;
                let open = self.open(&pool)?;
                directory::sync(&open, &places)?;
                let what = format!("pool `{}`", shown(&pool));
                open.sync_ledger(what).map(done)
            }
            PoolCall::CreateImage {
                pool,
                path,
                size_bytes,
            } => {
                let (open, place) = self.at_to_change(&pool, &path)?;
                image::create(&open, &place, size_bytes).map(done)
            }
            PoolCall::ResizeImage {
                pool,
                path,
                size_bytes,
            } => {
                let (open, place) = self.at_to_change(&pool, &path)?;
                image::resize(&open, &place, size_bytes).map(done)
            }
            PoolCall::RemoveImage { pool, path } => {
                let (open, place) = self.at(&pool, &path)?;
                trash::remove(&open, &place, FileType::RegularFile).map(done)
            }
            PoolCall::CloneImage {
                pool,
                source,
                target,
            } => {
                let request = CopyRequest::Image(Pair::parse(&pool, &source, &target)?);
                return self.begin_copy(&pool, request);
            }
            PoolCall::CloneImages { pool, copies } => {
                return self.begin_copy(&pool, CopyRequest::group(&pool, &copies)?);
            }
            PoolCall::CloneDirectory {
                pool,
                source,
                target,
            } => {
                let request = CopyRequest::Directory(Pair::parse(&pool, &source, &target)?);
                return self.begin_copy(&pool, request);
            }
        };
        reply.map(Begun::Done)
    }

    fn begin_copy(&self, pool: &str, request: CopyRequest) -> Result<Begun, MountError> {
        let full_copies = self.granted(pool)?.full_copies;
        let job = Job {
            pool: self.open(pool)?,
            // A full copy takes too long to be consistent with others at one moment.
            full_copies: full_copies && !matches!(request, CopyRequest::Images(_)),
            request,
            freezer: Arc::clone(&self.freezer),
        };
        // This needs no thread for copies, which other calls may occupy for hours.
        if job.is_done()? {
            return Ok(Begun::Done(PoolReply::Done));
        }
        let (claim, waiting) = copies::begin(&job.pool.copies, &job.request)?;
        Ok(Begun::Copy(claim.map(|claim| (job, claim)), waiting))
    }

    fn names(&self) -> Result<PoolReply, MountError> {
        Ok(PoolReply::Names(self.granted.keys().cloned().collect()))
    }

    fn granted(&self, pool: &str) -> Result<&Granted, MountError> {
        let granted = self.granted.get(pool);
        granted.ok_or_else(|| pool_not_granted("pool", pool))
    }

    /// The entry at a place. A host that mounts what another one manages on the same machine asks nothing else of a pool: it neither takes the other's
    /// lock nor keeps it for itself.
    fn stat(&self, pool: &str, path: &str) -> Result<Option<PoolEntry>, MountError> {
        let place = Place::parse(pool, path)?;
        if let Storage::Directory(directory) = &self.granted(pool)?.storage
            && lock(&directory.open).is_none()
        {
            let path = &directory.user.directory;
            if let Some(root) = open_elsewhere(path) {
                return listing::stat_elsewhere(&root, &place);
            }
            return listing::stat(&*Pool::open(pool, path)?, &place);
        }
        listing::stat(&*self.open(pool)?, &place)
    }

    fn open(&self, pool: &str) -> Result<Arc<Pool>, MountError> {
        let Directory { open, user } = match &self.granted(pool)?.storage {
            Storage::Directory(directory) => directory,
            Storage::Mounted(mounted) => return mounted.open(),
        };
        let path = &user.directory;
        let mut open = lock(open);
        if let Some(open) = &*open {
            if !users::leads_to(path, open.identity) {
                return Err(MountError::unusable(
                    format!("pool `{}` at {}", shown(pool), path.display()),
                    "another directory, or none, is there than when the host opened it; put the first one back, or restart the host to use this one",
                ));
            }
            drop(group_move::hold(open)?);
            return Ok(Arc::clone(open));
        }
        let opened = Pool::open(pool, path)?;
        user.found.get_or_init(|| opened.identity);
        Ok(Arc::clone(open.insert(opened)))
    }

    /// An open pool and a checked place in it.
    fn at(&self, pool: &str, path: &str) -> Result<(Arc<Pool>, Place), MountError> {
        let place = Place::parse(pool, path)?;
        Ok((self.open(pool)?, place))
    }

    /// The same, for a call that creates or changes something there.
    fn at_to_change(&self, pool: &str, path: &str) -> Result<(Arc<Pool>, Place), MountError> {
        let (open, place) = self.at(pool, path)?;
        open.copies.refuse_leaving(&place.path, &place)?;
        Ok((open, place))
    }
}

#[cfg(test)]
mod tests;

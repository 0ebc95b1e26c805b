//! Pools: the directories whose trees and images a backend may use, and the calls of the contract's `pool` interface. Apart from mounts
//! because a guest asks for these and a client never does.
//!
//! ```text
//! Pools ──▶ open       one directory, once a process, its host's folder `.wasmount`
//!             ├──▶ directory, image, copy     one file a kind of thing
//!             ├──▶ promise, taken             capacity, quota; what of it is on the disk already
//!             ├──▶ trash                      every deletion
//!             └──▶ ledger                     what is promised, what was copied from what
//! ```
//!
//! Everything here blocks. A change is on stable storage, with its parent directory, when its call returns. It must not know drivers.

mod copy;
mod copy_tree;
mod directory;
mod image;
mod ledger;
mod listing;
mod open;
mod place;
mod promise;
mod taken;
mod trash;

use crate::failure::shown;
use open::Pool;
use place::Place;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use wasmount_core::document::PoolGrant;
use wasmount_core::mounter::MountError;
use wasmount_core::pool::{PoolCall, PoolReply};

/// Tells what staged volumes use.
pub(crate) trait InUse: Send + Sync {
    /// Paths in a pool that are the source of a staged or published volume.
    fn paths(&self, pool: &str) -> Vec<String>;
}

/// The pools of one driver.
pub(crate) struct Pools {
    granted: BTreeMap<String, Granted>,
    in_use: Arc<dyn InUse>,
}

struct Granted {
    grant: PoolGrant,
    /// Opened at the first call that needs it: a pool that cannot be opened is nobody else's trouble.
    open: Mutex<Option<Arc<Pool>>>,
}

impl Pools {
    /// Takes the grants; opens nothing. A pool's directory is made at its first use if its parent exists.
    pub(crate) fn new(grants: &BTreeMap<String, PoolGrant>, in_use: Arc<dyn InUse>) -> Self {
        let granted = |(name, grant): (&String, &PoolGrant)| {
            let granted = Granted {
                grant: grant.clone(),
                open: Mutex::default(),
            };
            (name.clone(), granted)
        };
        Self {
            granted: grants.iter().map(granted).collect(),
            in_use,
        }
    }

    /// One call. Blocks for as long as it takes: a copy may take hours, meanwhile the same call again is [`MountError::UnderWay`].
    pub(crate) fn call(&self, call: PoolCall) -> Result<PoolReply, MountError> {
        match call {
            PoolCall::Names => Ok(PoolReply::Names(self.granted.keys().cloned().collect())),
            PoolCall::Capacity { pool } => {
                promise::capacity(&*self.open(&pool)?, &pool).map(PoolReply::Capacity)
            }
            PoolCall::Stat { pool, path } => {
                let place = Place::parse(&pool, &path)?;
                listing::stat(&*self.open(&pool)?, &place).map(PoolReply::Stat)
            }
            PoolCall::List {
                pool,
                path,
                after,
                limit,
            } => {
                let open = self.open(&pool)?;
                let place = match path.as_str() {
                    "" => None,
                    path => Some(Place::parse(&pool, path)?),
                };
                listing::list(&open, &pool, place.as_ref(), after.as_deref(), limit)
                    .map(PoolReply::List)
            }
            PoolCall::SetQuota { pool, path, bytes } => {
                let place = Place::parse(&pool, &path)?;
                let enforced = promise::set_quota(&*self.open(&pool)?, &place, bytes)?;
                Ok(PoolReply::Quota { enforced })
            }
            change => self.change(change).map(|()| PoolReply::Done),
        }
    }

    /// Calls that answer nothing but that it is done.
    fn change(&self, call: PoolCall) -> Result<(), MountError> {
        match call {
            PoolCall::CreateDirectory { pool, path } => {
                let place = Place::parse(&pool, &path)?;
                directory::create(&*self.open(&pool)?, &place)
            }
            PoolCall::RemoveDirectory { pool, path } => {
                let place = self.unused(&pool, &path)?;
                directory::remove(&*self.open(&pool)?, &place)
            }
            PoolCall::SetPermissions {
                pool,
                path,
                mode,
                uid,
                gid,
            } => {
                let place = Place::parse(&pool, &path)?;
                directory::set_permissions(&*self.open(&pool)?, &place, mode, uid, gid)
            }
            PoolCall::Rename {
                pool,
                source,
                target,
            } => {
                let source = self.unused(&pool, &source)?;
                let target = Place::parse(&pool, &target)?;
                directory::rename(&*self.open(&pool)?, &source, &target)
            }
            PoolCall::CreateImage {
                pool,
                path,
                size_bytes,
            } => {
                let place = Place::parse(&pool, &path)?;
                image::create(&*self.open(&pool)?, &place, size_bytes)
            }
            PoolCall::ResizeImage {
                pool,
                path,
                size_bytes,
            } => {
                let place = Place::parse(&pool, &path)?;
                image::resize(&*self.open(&pool)?, &place, size_bytes)
            }
            PoolCall::RemoveImage { pool, path } => {
                let place = self.unused(&pool, &path)?;
                image::remove(&*self.open(&pool)?, &place)
            }
            PoolCall::CloneImage {
                pool,
                source,
                target,
            } => {
                let (source, target) =
                    (Place::parse(&pool, &source)?, Place::parse(&pool, &target)?);
                copy::image(&*self.open(&pool)?, &source, &target, self.copying(&pool)?)
            }
            PoolCall::CloneDirectory {
                pool,
                source,
                target,
            } => {
                let (source, target) =
                    (Place::parse(&pool, &source)?, Place::parse(&pool, &target)?);
                copy::directory(&*self.open(&pool)?, &source, &target, self.copying(&pool)?)
            }
            PoolCall::Names
            | PoolCall::Capacity { .. }
            | PoolCall::Stat { .. }
            | PoolCall::List { .. }
            | PoolCall::SetQuota { .. } => Err(MountError::Invalid {
                what: "pool call".to_owned(),
                reason: "it changes nothing".to_owned(),
            }),
        }
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
            })
    }

    fn open(&self, pool: &str) -> Result<Arc<Pool>, MountError> {
        let granted = self.granted(pool)?;
        let mut open = granted.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*open {
            return Ok(Arc::clone(open));
        }
        let opened = Pool::open(pool, &granted.grant.path)?;
        Ok(Arc::clone(open.insert(opened)))
    }

    fn copying(&self, pool: &str) -> Result<copy::Copying, MountError> {
        Ok(if self.granted(pool)?.grant.full_copies {
            copy::Copying::SharedOrFull
        } else {
            copy::Copying::Shared
        })
    }

    /// What a staged volume uses, or a copy reads, stays where it is, whatever the guest says.
    fn unused(&self, pool: &str, path: &str) -> Result<Place, MountError> {
        let open = self.open(pool)?;
        let place = Place::parse(pool, path)?;
        open.check_not_copied(&place)?;
        for used in self.in_use.paths(pool) {
            if place.overlaps(&used) {
                return Err(
                    place.in_use("a volume is staged from it: unpublish and unstage it first")
                );
            }
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests;

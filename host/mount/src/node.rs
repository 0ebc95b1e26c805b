//! What all blocking calls of the mounter share: roots, grants and journal.
//!
//! Its methods are in `stage`, `publish`, `teardown`, `recovery`, `stats` and `health`; here is what several of them need.

use crate::durable::Durable;
use crate::failure::{kernel, shown};
use crate::journal::{Entry, Journal};
use crate::kubelet_path::Purpose;
use crate::kubelet_record;
use crate::observe::{Identity, Observation, Seen, SeenMount, look};
use crate::roots::{CheckedPath, Location, Roots};
use crate::stats_cache::StatsCache;
use crate::threads::Budgets;
use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use wasmount_core::document::Grants;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::{DriverName, NodePath};

/// One node, as the mounter sees it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) roots: Roots,
    pub(crate) journal: Journal,
    /// Those of the versions that serve.
    pub(crate) grants: RwLock<BTreeMap<DriverName, Grants>>,
    pub(crate) durable: Durable,
    pub(crate) stats_cache: StatsCache,
    pub(crate) budgets: Budgets,
    /// Volumes without a stage step that are being made: their publishes hold the volume's claim together.
    pub(crate) preparing: Mutex<BTreeSet<VolumeKey>>,
}

/// The sole publish that makes a volume, until it is dropped.
pub(crate) struct Alone<'n>(&'n Node, VolumeKey);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.preparing().remove(&self.1);
    }
}

/// What is in the way of a new mount, if anything.
pub(crate) enum Place {
    /// Nothing has the name.
    Missing,
    /// An ordinary directory.
    Directory(OwnedFd),
    /// An ordinary file.
    File(OwnedFd, Observation),
    /// Some mount.
    Taken(SeenMount),
}

impl Node {
    /// What a driver was granted; a driver without a document was granted nothing.
    pub(crate) fn grants_of(&self, driver: &DriverName) -> Grants {
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        grants.get(driver).cloned().unwrap_or_default()
    }

    /// From now on a driver is granted this; whether that is something else than before.
    pub(crate) fn grant(&self, driver: &DriverName, granted: Option<Grants>) -> bool {
        let mut grants = self.grants.write().unwrap_or_else(PoisonError::into_inner);
        let before = match granted.clone() {
            Some(granted) => grants.insert(driver.clone(), granted),
            None => grants.remove(driver),
        };
        before != granted
    }

    /// A path at which a call sets a volume up or takes it down: one that its client may name for this volume.
    pub(crate) fn path_for(
        &self,
        purpose: Purpose,
        key: &VolumeKey,
        path: &NodePath,
    ) -> Result<CheckedPath, MountError> {
        let path = self.roots.check(path)?;
        let is_teardown = matches!(purpose, Purpose::Unstage | Purpose::Unpublish);
        // What was set up goes, whatever the rules were then.
        if is_teardown && self.journal.entry(key).is_at(path.text()) {
            return Ok(path);
        }
        path.refuse_unlike_kubelets(purpose, &key.driver)?;
        kubelet_record::refuse_other(&self.roots, path.text(), key)?;
        Ok(path)
    }

    /// Keeps other publishes of a volume out while it is made. A client tries again.
    pub(crate) fn alone(&self, key: &VolumeKey) -> Result<Alone<'_>, MountError> {
        if self.preparing().insert(key.clone()) {
            return Ok(Alone(self, key.clone()));
        }
        Err(MountError::UnderWay {
            what: format!("another publish of {}", volume_words(key)),
        })
    }

    fn preparing(&self) -> MutexGuard<'_, BTreeSet<VolumeKey>> {
        // Each change is one step, so what a panicking thread leaves is whole.
        self.preparing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The mount at a path, if it has this root. Not being able to look is an error, not a no.
    pub(crate) fn mounted(
        &self,
        path: &CheckedPath,
        identity: Identity,
    ) -> Result<Option<SeenMount>, MountError> {
        let Some(location) = path.locate()? else {
            return Ok(None);
        };
        match look(&location)? {
            Seen::Mounted(mount) if mount.identity == identity => Ok(Some(mount)),
            Seen::Corrupted(errno) => Err(kernel("look at the mount at", path.text(), errno)),
            _ => Ok(None),
        }
    }

    /// The same for a record, which may have no mount yet.
    pub(crate) fn still_mounted(
        &self,
        path: &str,
        identity: Option<Identity>,
    ) -> Result<bool, MountError> {
        let Some(identity) = identity else {
            return Ok(false);
        };
        let path = self.roots.check_text(path)?;
        Ok(self.mounted(&path, identity)?.is_some())
    }

    /// Refuses to touch a path where another volume is mounted: a client that mixes two up must not take down the wrong one.
    pub(crate) fn refuse_others(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<(), MountError> {
        let holders = self.journal.holders_of(path.text()).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = holders.partition(|(holder, _)| holder == key);
        for (holder, identity) in others {
            // Two volumes can show one tree.
            if own.iter().any(|(_, own)| *own == identity) {
                continue;
            }
            // Storage that does not answer is the holder's all the same, but must not keep its own path from being cleaned up.
            if is_certain(self.mounted(path, identity).map(|mount| mount.is_some()))? {
                return Err(MountError::in_use(path.text(), volume_words(&holder)));
            }
        }
        Ok(())
    }

    /// Records a step of a tear-down. The journal's disk may be full: that must not make a tear-down fail, since a record that does not hold
    /// any more does no harm and goes at the next recovery.
    pub(crate) fn record_teardown(&self, key: &VolumeKey, change: impl FnOnce(&mut Entry)) {
        let stored = self.journal.update(key, |entry| {
            change(entry);
            Ok(())
        });
        if let Err(error) = stored {
            tracing::warn!(%key.driver, %key.volume, %error, "the journal keeps an outdated record of a volume");
        }
    }
}

/// Whether a look said yes. One that failed counts as no, but if the host had no means to look at all.
pub(crate) fn is_certain(looked: Result<bool, MountError>) -> Result<bool, MountError> {
    match looked {
        Err(error @ MountError::OutOfResources { .. }) => Err(error),
        looked => Ok(looked.unwrap_or(false)),
    }
}

/// A volume, for messages.
pub(crate) fn volume_words(key: &VolumeKey) -> String {
    format!("volume {} of {}", shown(key.volume.as_str()), key.driver)
}

/// What is at a place where a mount is to go. A corrupted mount must be torn down by the client first: it may still be in use.
pub(crate) fn place(location: &Location) -> Result<Place, MountError> {
    match look(location)? {
        Seen::Nothing => Ok(Place::Missing),
        Seen::Mounted(mount) => Ok(Place::Taken(mount)),
        Seen::Plain(opened, observation) => match observation.kind {
            FileType::Directory => Ok(Place::Directory(opened)),
            FileType::RegularFile => Ok(Place::File(opened, observation)),
            _ => Err(location.occupied("it is neither a directory nor a file")),
        },
        Seen::Corrupted(errno) => Err(kernel("use the corrupted mount at", &location.path, errno)),
    }
}

/// Refuses to mount over a directory that is not empty. The mount would hide what is in it, and a target with content cannot be removed.
pub(crate) fn refuse_content(directory: &OwnedFd, location: &Location) -> Result<(), MountError> {
    let failed = |errno| location.failed("read", errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(directory, c".", flags, Mode::empty()).map_err(failed)?;
    for entry in Dir::new(opened).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            return Err(location.occupied(
                "it is not empty, and the volume would hide its content; move that away first",
            ));
        }
    }
    Ok(())
}

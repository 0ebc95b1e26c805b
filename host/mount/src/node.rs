//! State that all blocking calls of the mounter share: roots, grants and journal.
//!
//! The calls are in `stage`, `publish`, `teardown`, `recovery`, `stats` and `health`; this file has the code that several of them need.

use crate::block::loop_device;
use crate::connections::Connections;
use crate::durable::Durable;
use crate::exclusive::{Claim, Claims};
use crate::failure::{kernel, shown};
use crate::journal::{Entry, Journal};
use crate::kubelet_path::Purpose;
use crate::kubelet_record;
use crate::observe::{Identity, Observation, Seen, SeenMount, inspect, is_removed};
use crate::roots::{CheckedPath, Location, Roots};
use crate::stats_cache::StatsCache;
use crate::threads::Budgets;
use rustix::fs::{Dir, FileType, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use wasmount_core::document::Grants;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::{DriverName, NodePath};
use wasmount_core::plan::Source;

/// Mode of a target directory, which kubelet also uses for the directories above it. The mount hides it.
const TARGET_MODE: Mode = Mode::from_raw_mode(0o750);
/// Mode of a target file. The device node hides it.
const TARGET_FILE_MODE: Mode = Mode::from_raw_mode(0o600);

const IMAGE_REMOVED: &str = "its image was removed from the pool, so that whatever is written now is lost when it is unstaged; copy its data away from pods that still run, then delete them";
const DIRECTORY_REMOVED: &str = "its directory was removed from the pool, so that nothing can be written there any more; delete the pods that use it, and restore the volume";

/// The state of the mounter on one node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) roots: Roots,
    pub(crate) journal: Journal,
    /// The grants of the serving versions.
    pub(crate) grants: RwLock<BTreeMap<DriverName, Grants>>,
    pub(crate) durable: Durable,
    pub(crate) stats_cache: StatsCache,
    pub(crate) budgets: Budgets,
    /// Volumes without a stage step that are being set up: their publishes share the volume's claim.
    pub(crate) preparing: Claims<VolumeKey>,
    /// Where programs of the node run, if not in this process's own root.
    pub(crate) node_root: Option<PathBuf>,
    /// Those of NVMe that the mounter made.
    pub(crate) connections: Connections,
}

/// What exists at the path of a new mount.
pub(crate) enum Place {
    /// The name does not exist.
    Missing,
    /// An ordinary directory.
    Directory(OwnedFd),
    /// An ordinary file.
    File(OwnedFd, Observation),
    /// A mount.
    Taken(SeenMount),
}

impl Node {
    /// The grants of a driver; a driver without a document has none.
    pub(crate) fn grants_of(&self, driver: &DriverName) -> Grants {
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        grants.get(driver).cloned().unwrap_or_default()
    }

    /// Replaces the grants of a driver. Returns whether they changed.
    pub(crate) fn grant(&self, driver: &DriverName, granted: Option<Grants>) -> bool {
        let mut grants = self.grants.write().unwrap_or_else(PoisonError::into_inner);
        let before = match granted.clone() {
            Some(granted) => grants.insert(driver.clone(), granted),
            None => grants.remove(driver),
        };
        before != granted
    }

    /// Checks the path at which a call sets a volume up or tears it down: its client must be allowed to name it for this volume.
    pub(crate) fn path_for(
        &self,
        purpose: Purpose,
        key: &VolumeKey,
        path: &NodePath,
    ) -> Result<CheckedPath, MountError> {
        let path = self.roots.check(path)?;
        let is_teardown = matches!(purpose, Purpose::Unstage | Purpose::Unpublish);
        // A mount that the host made can be torn down, whatever rules applied when it was made.
        if is_teardown && self.journal.entry(key).is_at(path.text()) {
            return Ok(path);
        }
        path.refuse_unlike_kubelets(purpose, &key.driver)?;
        kubelet_record::refuse_other(&self.roots, path.text(), key)?;
        Ok(path)
    }

    /// Excludes other publishes of a volume while it is set up. Their clients try again.
    pub(crate) fn alone(&self, key: &VolumeKey) -> Result<Claim<'_, VolumeKey>, MountError> {
        let other =
            || MountError::under_way(format!("another publish of {}", describe_volume(key)));
        self.preparing.claim(key.clone()).ok_or_else(other)
    }

    /// The mount at a path, if it has this root. A failed check is an error and does not mean no.
    pub(crate) fn mounted(
        &self,
        path: &str,
        identity: Identity,
    ) -> Result<Option<SeenMount>, MountError> {
        let Some(location) = self.roots.check_text(path)?.locate()? else {
            return Ok(None);
        };
        match inspect(&location)? {
            Seen::Mounted(mount) if mount.identity == identity => Ok(Some(mount)),
            Seen::Corrupted(errno) => Err(kernel("look at the mount at", path, errno)),
            _ => Ok(None),
        }
    }

    /// The same for a record, which may have no mount yet.
    pub(crate) fn still_mounted(
        &self,
        path: &str,
        identity: Option<Identity>,
    ) -> Result<bool, MountError> {
        match identity {
            Some(identity) => Ok(self.mounted(path, identity)?.is_some()),
            None => Ok(false),
        }
    }

    /// Refuses to change a path where another volume is mounted: a client that confuses two volumes must not tear down the wrong one.
    pub(crate) fn refuse_others(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<(), MountError> {
        let holders = self.journal.holders_of(path.text()).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = holders.partition(|(holder, _)| holder == key);
        for (holder, identity) in others {
            // Two volumes can show the same tree.
            if own.iter().any(|(_, own)| *own == identity) {
                continue;
            }
            // Storage that does not answer still belongs to its volume, but must not prevent the cleanup of its own path.
            if is_certain(self.still_mounted(path.text(), Some(identity)))? {
                return Err(MountError::in_use(path.text(), describe_volume(&holder)));
            }
        }
        Ok(())
    }

    /// Refuses a new target of a stage whose image or directory was removed. It reads only sysfs and the mount's inode, so it does not wait for
    /// storage. Existing targets stay: running programs must be able to copy their data away.
    pub(crate) fn ensure_source_exists(
        &self,
        key: &VolumeKey,
        staged: Option<&SeenMount>,
    ) -> Result<(), MountError> {
        let Some(stage) = self.journal.entry(key).stage else {
            return Ok(());
        };
        let reason = match (&stage.plan.source, stage.block, staged) {
            (Source::Image { path, .. }, Some(block), _) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                loop_device::is_backing_removed(block.number, name).then_some(IMAGE_REMOVED)
            }
            (Source::Directory { .. }, _, Some(mount)) => is_removed(&mount.root)
                .map_err(|errno| kernel("statx", &stage.path, errno))?
                .then_some(DIRECTORY_REMOVED),
            _ => None,
        };
        reason.map_or(Ok(()), |reason| {
            Err(MountError::unusable(describe_volume(key), reason))
        })
    }

    /// Records a step of a teardown. If the journal's disk is full, the teardown must not fail: an outdated record is harmless and is removed at the
    /// next recovery.
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

/// Whether a check succeeded with yes. A failed check counts as no, unless the host lacked the resources to check at all.
pub(crate) fn is_certain(checked: Result<bool, MountError>) -> Result<bool, MountError> {
    match checked {
        Err(error @ MountError::OutOfResources { .. }) => Err(error),
        checked => Ok(checked.unwrap_or(false)),
    }
}

/// A volume, as text for messages.
pub(crate) fn describe_volume(key: &VolumeKey) -> String {
    format!("volume {} of {}", shown(key.volume.as_str()), key.driver)
}

/// What exists at the path of a new mount. The client must first tear down a corrupted mount, because it may still be in use.
pub(crate) fn place(location: &Location) -> Result<Place, MountError> {
    match inspect(location)? {
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

/// Refuses to mount over a directory that is not empty. The mount would hide its content, and a target with content cannot be removed.
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

/// Creates and opens the target: a directory, or a file for a raw block volume (CSI specification, NodePublishVolumeRequest.target_path). An existing
/// one is accepted, because some clients create it.
pub(crate) fn create_target(location: &Location, is_raw: bool) -> Result<OwnedFd, MountError> {
    let (parent, name) = (&location.parent, &location.name);
    let created = if is_raw {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        openat(parent, name, flags | OFlags::CLOEXEC, TARGET_FILE_MODE).map(drop)
    } else {
        mkdirat(parent, name, TARGET_MODE)
    };
    match created {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(location.failed("create", errno)),
    }
    let difference = match (place(location)?, is_raw) {
        (Place::Directory(directory), false) => {
            refuse_content(&directory, location)?;
            return Ok(directory);
        }
        (Place::File(file, observation), true) if observation.size_bytes == 0 => return Ok(file),
        (Place::File(..), true) => "it is a file with content; move it away first",
        (Place::File(..), false) => "it is a file, and the volume is a file system",
        (Place::Directory(_), true) => "it is a directory, and the volume is a block device",
        (Place::Missing | Place::Taken(_), _) => {
            return Err(kernel("open", &location.path, Errno::STALE));
        }
    };
    Err(location.occupied(difference))
}

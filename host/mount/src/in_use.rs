//! What volumes use: trees and images of pools, which a guest must not remove while a pod uses them, and block devices, which no other volume may
//! get.
//!
//! A record does not count if its mount is gone: after a power cut, or with a full journal disk, a stale record must not prevent the deletion of a
//! volume. A missing record is not sufficient either: if the journal was lost, the mount table is read as well, until each mount in it is recorded or
//! gone.

use crate::block::{BlockDevice, DeviceNumber, loop_device};
use crate::encryption;
use crate::journal::{Entry, Progress, Shows};
use crate::node::{Node, describe_volume};
use crate::pool::InUse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wasmount_core::document::{PoolGrant, PoolMount};
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;
use wasmount_core::plan::{Plan, Source};

/// The volumes of one driver.
pub(crate) struct DriverVolumes {
    node: Arc<Node>,
    driver: DriverName,
    /// Every mount of the driver's pools has a record, so the mount table need not be read any more.
    is_recorded: AtomicBool,
}

impl DriverVolumes {
    pub(crate) fn new(node: Arc<Node>, driver: DriverName) -> Self {
        Self {
            node,
            driver,
            is_recorded: AtomicBool::new(false),
        }
    }

    /// The records of volumes whose path in a pool is touched.
    fn recorded(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> Vec<Entry> {
        let grants = self.node.grants_of(&self.driver);
        let mount = grants.pools.get(pool).and_then(PoolGrant::mount);
        self.node.journal.entries(|entry| {
            let mut paths = entry.paths().filter_map(|at| path_in(pool, mount, at.plan));
            entry.key.driver == self.driver && paths.any(touches)
        })
    }

    fn shown(&self, pool: &str) -> Vec<String> {
        match self.node.shown(&self.driver, pool) {
            Ok(shown) => {
                self.is_recorded.store(shown.is_recorded, Ordering::Relaxed);
                shown.trees
            }
            Err(error) => {
                tracing::warn!(driver = %self.driver, pool, %error, "mounts without a journal entry cannot be listed");
                Vec::new()
            }
        }
    }
}

impl InUse for DriverVolumes {
    fn may_use(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> bool {
        !self.is_recorded.load(Ordering::Relaxed) || !self.recorded(pool, touches).is_empty()
    }

    fn uses(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> bool {
        let recorded = self.recorded(pool, touches);
        recorded.iter().any(|entry| self.node.has_mounts(entry))
            || (!self.is_recorded.load(Ordering::Relaxed)
                && self.shown(pool).iter().any(|tree| touches(tree)))
    }
}

impl Node {
    /// Whether any mount of a volume, or its raw device, exists or is being made. One that cannot be checked counts as existing.
    fn has_mounts(&self, entry: &Entry) -> bool {
        entry.paths().any(|at| match at.shows() {
            _ if at.progress == Progress::Coming => true,
            Some(Shows::Mount(identity) | Shows::Node(identity)) => {
                self.still_mounted(at.path, Some(identity)).unwrap_or(true)
            }
            Some(Shows::Device(_)) => self.has_raw_device(&entry.key, &at),
            None => false,
        })
    }

    /// Refuses a device that another volume uses, or that is the loop device of any volume's image.
    ///
    /// The kernel does not prevent this. A raw block volume makes no exclusive claim, because pods open its node in any mode. So an exclusive open of
    /// its device succeeds, and another volume's `mkfs` would overwrite its data.
    pub(crate) fn ensure_device_unclaimed(
        &self,
        key: &VolumeKey,
        device: &BlockDevice,
    ) -> Result<(), MountError> {
        let in_use = |by: String| {
            let what = format!("device {}", device.path.display());
            Err(MountError::in_use(what, by))
        };
        let number = device.number;
        if loop_device::status(number)?.is_some_and(|attached| attached.tag.is_some()) {
            return in_use("a volume whose image it shows".to_owned());
        }
        if encryption::is_map(number) {
            return in_use("an encrypted volume whose content it shows".to_owned());
        }
        let entries = self.journal.entries(|entry| {
            let mut blocks = entry.blocks();
            blocks.any(|block| block.number == number)
        });
        let other = entries
            .iter()
            .find(|entry| entry.key != *key && self.has_on(entry, number));
        match other {
            Some(other) => in_use(describe_volume(&other.key)),
            None => Ok(()),
        }
    }

    /// Whether a recorded device exists or is being attached. One that cannot be checked counts as existing.
    fn has_on(&self, entry: &Entry, number: DeviceNumber) -> bool {
        entry.paths().any(|at| {
            let is_there = || match at.is_stage {
                true => self.has_raw_device(&entry.key, &at),
                false => self.still_mounted(at.path, at.identity).unwrap_or(true),
            };
            at.block.is_some_and(|block| block.number == number)
                && (at.progress != Progress::Settled || is_there())
        })
    }
}

/// The path of the tree or image in a pool that a plan names. `mount`: what the host mounted for the pool.
fn path_in<'p>(pool_name: &str, mount: Option<&PoolMount>, plan: &'p Plan) -> Option<&'p str> {
    match &plan.source {
        Source::Directory { pool, path } | Source::Image { pool, path } => {
            (pool == pool_name).then_some(path)
        }
        Source::Filesystem { source, .. } => below(&mount?.source, source),
        Source::Device { .. }
        | Source::AnyDevice { .. }
        | Source::Iscsi(_)
        | Source::Nvme(_)
        | Source::Rbd(_)
        | Source::Tmpfs { .. }
        | Source::Files { .. } => None,
    }
}

/// The path of one source strictly below another one.
fn below<'s>(root: &str, source: &'s str) -> Option<&'s str> {
    let rest = source.strip_prefix(root.trim_end_matches('/'))?;
    let path = rest.strip_prefix('/')?.trim_matches('/');
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_in_a_pool_if_it_lies_below_its_source() {
        for (root, source, path) in [
            ("nas:/export", "nas:/export/a/b", Some("a/b")),
            ("nas:/export/", "nas:/export/a/", Some("a")),
            ("nas:/", "nas:/a", Some("a")),
            ("nas:/export", "nas:/export", None),
            ("nas:/export", "nas:/exports/a", None),
            ("nas:/export", "other:/export/a", None),
        ] {
            assert_eq!(below(root, source), path, "{root} {source}");
        }
    }
}

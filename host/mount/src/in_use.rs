//! What volumes use: trees and images of pools, so that no guest can remove them under a pod, and block devices, so that no other volume gets
//! them.
//!
//! A record alone does not count when its mount is gone: after a power cut, or a full journal disk, a stale one must not keep a volume from
//! being deleted. Nor does a missing record: where the journal was lost, the mount table is asked as well, until all that it shows is recorded
//! or gone.

use crate::block::{BlockDevice, DeviceNumber, loop_device};
use crate::journal::{Entry, Progress, Shows};
use crate::node::{Node, volume_words};
use crate::pool::InUse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;
use wasmount_core::plan::{Plan, Source};

/// What volumes of one driver use.
pub(crate) struct DriverVolumes {
    node: Arc<Node>,
    driver: DriverName,
    /// Every mount of the driver's pools has a record, so that the mount table need not be read any more.
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

    fn recorded(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> bool {
        let entries = self.node.journal.of_driver(&self.driver);
        // Whether its mounts are there is asked last: it looks at each.
        entries.iter().any(|entry| {
            let mut paths = entry.paths().filter_map(|at| path_in(pool, at.plan));
            paths.any(touches) && self.node.has_mounts(entry)
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
    fn uses(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> bool {
        self.recorded(pool, touches)
            || (!self.is_recorded.load(Ordering::Relaxed)
                && self.shown(pool).iter().any(|tree| touches(tree)))
    }
}

impl Node {
    /// Whether any mount of a volume, or its raw device, is there or coming. One that cannot be looked at counts as there.
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

    /// Refuses a device that another volume has, or that is the loop device of any volume's image.
    ///
    /// The kernel does not: a raw block volume claims nothing, since pods open its node as they like, so an exclusive open of it succeeds and
    /// another volume's `mkfs` would run over its data.
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
        let entries = self.journal.entries(|entry| {
            let mut blocks = entry.blocks();
            blocks.any(|block| block.number == number)
        });
        let other = entries
            .iter()
            .find(|entry| entry.key != *key && self.has_on(entry, number));
        match other {
            Some(other) => in_use(volume_words(&other.key)),
            None => Ok(()),
        }
    }

    /// Whether what a record says of a device is there or coming. What cannot be looked at counts as there.
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

/// The tree or image of a pool that a plan shows.
fn path_in<'p>(wanted: &str, plan: &'p Plan) -> Option<&'p str> {
    match &plan.source {
        Source::Directory { pool, path } | Source::Image { pool, path } => {
            (pool == wanted).then_some(path)
        }
        Source::Device { .. }
        | Source::Filesystem { .. }
        | Source::Tmpfs { .. }
        | Source::Files { .. } => None,
    }
}

//! Whether a block device is another volume's already.
//!
//! It is apart because the kernel does not say: a raw block volume claims nothing, since pods open its node as they like, so an exclusive
//! open of it succeeds and another volume's `mkfs` would run over its data. Records and the names of our loop devices do. It must not know
//! how a device was found.

use crate::block::{BlockDevice, BlockRecord, DeviceNumber, loop_device};
use crate::journal::entry::{Entry, Progress};
use crate::node::{Node, volume_words};
use wasmount_core::mounter::{MountError, VolumeKey};

impl Node {
    /// Refuses a device that another volume has, or that is the loop device of any volume's image: that one is lent by its image alone.
    pub(crate) fn ensure_device_unclaimed(
        &self,
        key: &VolumeKey,
        device: &BlockDevice,
    ) -> Result<(), MountError> {
        let in_use = |by: String| {
            Err(MountError::InUse {
                what: format!("device {}", device.path.display()),
                by,
            })
        };
        let number = device.number;
        if loop_device::status(number)?.is_some_and(|attached| attached.tag.is_some()) {
            return in_use("a volume whose image it shows".to_owned());
        }
        let entries = self.journal.entries_on(number);
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
        let is_on = |block: Option<BlockRecord>| block.is_some_and(|it| it.number == number);
        let is_staged = entry.stage.as_ref().is_some_and(|stage| {
            is_on(stage.block)
                && (stage.progress != Progress::Settled || self.has_raw_device(&entry.key, stage))
        });
        is_staged
            || entry.targets.iter().any(|(path, target)| {
                is_on(target.block)
                    && (target.progress != Progress::Settled
                        || self.still_mounted_if(path, target.identity).unwrap_or(true))
            })
    }
}

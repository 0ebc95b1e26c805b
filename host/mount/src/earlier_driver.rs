//! Loop devices that an earlier driver of the same name left under a target: `losetup` without our tag, on an image of a pool.
//!
//! It is apart because the only evidence is kubelet's own record of the path, read before the mount goes. Left attached, such a device would keep
//! its image from every later stage. It must not know what this host attached itself: that has tags and records.

use crate::block::loop_device;
use crate::block::{BlockRecord, DeviceNumber};
use crate::kubelet_record;
use crate::mountinfo;
use crate::node::Node;
use crate::roots::CheckedPath;
use wasmount_core::mounter::{MountError, VolumeKey};

impl Node {
    /// Those whose nodes are mounted at a target that no record names, if kubelet says that it is this volume's.
    pub(crate) fn earlier_devices(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<Vec<BlockRecord>, MountError> {
        let is_recorded = self.journal.entry(key).targets.contains_key(path.text());
        if is_recorded || !kubelet_record::says(&self.roots, path.text(), key) {
            return Ok(Vec::new());
        }
        let point = path.in_mount_table()?;
        let table = mountinfo::read()?;
        let devices: Vec<DeviceNumber> = table
            .iter()
            .filter(|line| Some(&line.mount_point) == point.as_ref())
            .filter_map(|line| line.shown_device())
            .collect();
        let mut left = Vec::new();
        for device in devices {
            if let Some(attached) = loop_device::status(device)?
                && attached.tag.is_none()
                && self.lies_in_pool(key, device)?
            {
                left.push(attached.record());
            }
        }
        Ok(left)
    }

    /// Lets go of those that nothing shows any more.
    pub(crate) fn release_earlier(&self, devices: &[BlockRecord]) -> Result<(), MountError> {
        for device in devices {
            if !mountinfo::is_shown(device.number)? {
                loop_device::release(device)?;
            }
        }
        Ok(())
    }
}

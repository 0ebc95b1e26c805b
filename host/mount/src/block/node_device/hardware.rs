//! The node's devices of hardware, be it that of a virtual machine: neither partitions nor what the kernel makes of files, memory or other devices.

use super::{DeviceNode, DeviceTree, KernelName};
use crate::block::{BlockDevice, DeviceNumber};
use crate::plan::device::DeviceFacts;
use std::fmt;
use wasmount_core::mounter::MountError;

/// All of them.
#[derive(Default)]
pub(crate) struct Hardware(pub(super) DeviceTree);

/// One, as it was listed. Nothing is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HardwareDevice {
    name: KernelName,
    pub(crate) number: DeviceNumber,
}

impl Hardware {
    /// Those with a size below this one, in the order of their names.
    pub(crate) fn smaller_than(&self, bytes: u64) -> Vec<HardwareDevice> {
        let Self(tree) = self;
        let mut names = tree.names();
        names.retain(|name| {
            let size = tree.size_bytes(name);
            size.is_some_and(|size| 0 < size && size < bytes)
                && tree.disk_of(name).is_none()
                && !tree.is_virtual(name)
        });
        names.sort_unstable();
        let numbered = names.into_iter().filter_map(|name| {
            let number = tree.number(&name)?;
            Some(HardwareDevice { name, number })
        });
        numbered.collect()
    }

    /// The facts that grants may name.
    pub(crate) fn facts(&self, device: &HardwareDevice) -> DeviceFacts {
        self.0.facts_of(&device.name)
    }

    /// Opens it for reading. `None`: it is gone, or nothing is in it.
    pub(crate) fn open(&self, device: &HardwareDevice) -> Result<Option<BlockDevice>, MountError> {
        match self.node(device)? {
            Some(node) => node.device(true),
            None => Ok(None),
        }
    }

    /// The same if it has no other user at that moment: it is not mounted, and no loop device lies on it.
    pub(crate) fn open_unused(
        &self,
        device: &HardwareDevice,
    ) -> Result<Option<BlockDevice>, MountError> {
        let Some(node) = self.node(device)? else {
            return Ok(None);
        };
        match node.claim()? {
            Some(_claim) => node.device(true),
            None => Ok(None),
        }
    }

    fn node(&self, device: &HardwareDevice) -> Result<Option<DeviceNode<'_>>, MountError> {
        let node = DeviceNode::open(&self.0, &device.name)?;
        Ok(node.filter(|node| node.number == device.number))
    }
}

impl fmt::Display for HardwareDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

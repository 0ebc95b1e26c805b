//! A device that this host has handed out already, found again by its facts: without the claim of `open`, since its users may have it.
//!
//! It is apart because what it finds proves nothing but that the device is still the same.

use super::node::Node;
use super::search;
use super::tree::DeviceTree;
use crate::block::{BlockDevice, DeviceNumber};
use crate::failure::kernel;
use crate::plan::device::{CheckedDevice, is_covered};
use rustix::fs::OFlags;
use rustix::io::Errno;
use wasmount_core::mounter::MountError;

/// Which device has the facts now. `None`: not exactly one that was granted.
pub(crate) fn find(device: &CheckedDevice) -> Result<Option<DeviceNumber>, MountError> {
    Ok(found(&DeviceTree::default(), device)?.map(|node| node.number()))
}

/// Opens it, for writing where it can be written.
pub(crate) fn open_shared(device: &CheckedDevice) -> Result<Option<BlockDevice>, MountError> {
    let tree = DeviceTree::default();
    let Some(node) = found(&tree, device)? else {
        return Ok(None);
    };
    let Some(name) = tree.named(node.number()) else {
        return Ok(None);
    };
    let is_read_only = tree.is_read_only(&name);
    let access = if is_read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    match node.reopen(access) {
        Ok(file) => Ok(Some(BlockDevice {
            file,
            number: node.number(),
            path: tree.node(&name),
            backing: None,
            is_read_only,
        })),
        Err(Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM) => Ok(None),
        Err(errno) => Err(kernel("open", &name, errno)),
    }
}

fn found(tree: &DeviceTree, device: &CheckedDevice) -> Result<Option<Node>, MountError> {
    match search::find(tree, &device.facts)?.as_slice() {
        [name] if is_covered(&device.grants, &tree.facts_of(name)) => Node::open(tree, name),
        _ => Ok(None),
    }
}

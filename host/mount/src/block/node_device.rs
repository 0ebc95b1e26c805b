//! A block device of the node, found by its facts: waited for, opened, and looked at once more.
//!
//! It is apart because between a name and a device anything can change: disks are renumbered, links are late. So what counts is what holds
//! for the opened device, whose number cannot be given away while it is open. It must not know what the device is for.

mod node;
mod search;
mod shared;
mod tree;
mod users;

pub(crate) use shared::{find, open_shared};

use crate::block::{BlockDevice, DeviceNumber};
use crate::failure::kernel;
use crate::plan::device::{CheckedDevice, DeviceFacts, in_words, is_covered, not_granted};
use node::Node;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tree::{DeviceTree, KernelName};
use wasmount_core::document::Grants;
use wasmount_core::mounter::MountError;

/// Time between two looks for a device: nobody notices it beside an attach, which takes seconds, and a look costs well under 1 ms.
const PAUSE: Duration = Duration::from_millis(100);
/// Most devices that a message names.
const NAMED: usize = 4;

/// What one look came to.
enum Look {
    Opened(BlockDevice),
    /// No device has all facts.
    Absent,
    /// One has, but cannot be opened yet; in words.
    Unready(String),
}

/// Finds the device, waits for it as long as the plan says, and opens it. Nothing else has it then. The descriptor keeps nobody out later:
/// who mounts the device asks the kernel for a file system that nobody else has (fsconfig(2), `FSCONFIG_CMD_CREATE_EXCL`).
pub(crate) fn open(device: &CheckedDevice, read_only: bool) -> Result<BlockDevice, MountError> {
    open_in(&DeviceTree::default(), device, read_only)
}

/// What is known of a device; nothing of one that is not there.
pub(crate) fn facts_of(number: DeviceNumber) -> DeviceFacts {
    let tree = DeviceTree::default();
    let name = tree.named(number);
    name.map(|name| tree.facts_of(&name)).unwrap_or_default()
}

/// Whether a grant covers this device, so that a mount of it can be the driver's own.
pub(crate) fn is_granted(grants: &Grants, number: DeviceNumber) -> bool {
    is_covered(&grants.devices, &facts_of(number))
}

fn open_in(
    tree: &DeviceTree,
    device: &CheckedDevice,
    read_only: bool,
) -> Result<BlockDevice, MountError> {
    let end = Instant::now() + device.wait;
    loop {
        let unready = match look(tree, device, read_only)? {
            Look::Opened(opened) => return Ok(opened),
            Look::Unready(reason) => Some(reason),
            Look::Absent => None,
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let missing = unready.map_or_else(|| nearly(tree, device), Ok)?;
            let asked = in_words(&device.facts);
            let waited = device.wait.as_millis();
            return Err(MountError::NotFound {
                what: format!("a block device with {asked} (waited {waited} ms: {missing})"),
            });
        }
        std::thread::sleep(left.min(PAUSE));
    }
}

fn look(tree: &DeviceTree, device: &CheckedDevice, read_only: bool) -> Result<Look, MountError> {
    let unready = |reason| Ok(Look::Unready(reason));
    let found = search::find(tree, &device.facts)?;
    let name = match found.as_slice() {
        [] => return Ok(Look::Absent),
        [name] => name,
        several => return Err(ambiguous(device, several)),
    };
    // Before it is opened: opening alone can make a device spin up.
    check_granted(tree, device, name)?;
    let Some(node) = Node::open(tree, name)? else {
        return unready(format!(
            "{name} has them, but no node of its number in /dev"
        ));
    };
    let is_read_only = tree.is_read_only(name);
    let access = if read_only || is_read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    let Some(claim) = claim(tree, name, &node)? else {
        return unready(format!("{name} has them, but nothing is behind its node"));
    };
    let file = node
        .reopen(access)
        .map_err(|errno| kernel("open", name, errno))?;
    // From here on the number is this device's. That the facts are its own, and not those of one that had the number before, is known
    // only now.
    if tree.named(node.number()).as_ref() != Some(name)
        || search::find(tree, &device.facts)? != found
    {
        return unready(format!("{name} was exchanged while it was opened"));
    }
    check_granted(tree, device, name)?;
    drop(claim);
    Ok(Look::Opened(BlockDevice {
        file,
        number: node.number(),
        path: tree.node(name),
        backing: None,
        is_read_only,
    }))
}

fn check_granted(
    tree: &DeviceTree,
    device: &CheckedDevice,
    name: &KernelName,
) -> Result<(), MountError> {
    if is_covered(&device.grants, &tree.facts_of(name)) {
        return Ok(());
    }
    Err(not_granted(&device.facts))
}

/// Shows that nobody has the device, by having it for a moment (open(2), `O_EXCL` without `O_CREAT`). Only for reading: udev looks anew at
/// each device that was open for writing. None: there is no device behind the node.
fn claim(tree: &DeviceTree, name: &KernelName, node: &Node) -> Result<Option<OwnedFd>, MountError> {
    let in_use = |by: Vec<String>| MountError::InUse {
        what: format!("device {name}"),
        by: by.join(", "),
    };
    match node.reopen(OFlags::RDONLY | OFlags::EXCL) {
        // A loop device does not claim what it lies on.
        Ok(claim) => match users::loops_on(tree, name)? {
            loops if loops.is_empty() => Ok(Some(claim)),
            loops => Err(in_use(loops)),
        },
        Err(Errno::BUSY) => Err(in_use(users::of(tree, name))),
        Err(Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM) => Ok(None),
        Err(errno) => Err(kernel("open", name, errno)),
    }
}

/// What comes nearest, for who has to find out what is wrong.
fn nearly(tree: &DeviceTree, device: &CheckedDevice) -> Result<String, MountError> {
    let mut near = search::near(tree, &device.facts)?;
    near.truncate(NAMED);
    if near.is_empty() {
        return Ok("no device has any of them".to_owned());
    }
    Ok(near.join("; "))
}

fn ambiguous(device: &CheckedDevice, several: &[KernelName]) -> MountError {
    let names: Vec<String> = several
        .iter()
        .take(NAMED)
        .map(ToString::to_string)
        .collect();
    MountError::Unusable {
        what: format!("the block device with {}", in_words(&device.facts)),
        reason: format!(
            "{} devices have them ({}); if they are paths to one disk, name the `by-id` of its multipath device (`dm-uuid-mpath-..`), else another fact as well",
            several.len(),
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests;

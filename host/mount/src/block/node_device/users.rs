//! Who has a block device, as far as it can be told from here: mounts, swap, devices on top of it.
//!
//! It is apart because the kernel only says that somebody has it (`EBUSY`), and an administrator needs to know who. It must not know why
//! somebody asks.

use super::tree::{DeviceTree, KernelName};
use crate::block::DeviceNumber;
use crate::block::loop_device::{self, Attached};
use crate::failure::shown;
use crate::mountinfo;
use wasmount_core::mounter::MountError;

/// The swap areas in use (proc(5)): a line of headings, then a path first in each line.
const SWAPS: &str = "/proc/swaps";
/// Most users that a message names.
const NAMED: usize = 4;

/// All users of a device, of its partitions and of the disk that it is a part of. Never empty.
pub(super) fn of(tree: &DeviceTree, name: &KernelName) -> Vec<String> {
    let devices = related(tree, name);
    let mut users: Vec<String> = devices
        .iter()
        .flat_map(|device| tree.holders(device))
        .map(lies_on_it)
        .collect();
    users.extend(mounts_of(tree, &devices));
    users.extend(swap_on(&devices));
    users.truncate(NAMED);
    if users.is_empty() {
        users.push(
            "who has it cannot be told from here; it may be mounted in another mount namespace, or open in a program (`lsblk`, `fuser -v`)"
                .to_owned(),
        );
    }
    users
}

/// Loop devices on a device or on parts of it: told by the number of what they lie on, since a path says nothing. kubelet attaches one to
/// each raw volume at its target path.
pub(super) fn loops_on(tree: &DeviceTree, name: &KernelName) -> Result<Vec<String>, MountError> {
    let devices: Vec<DeviceNumber> = related(tree, name)
        .iter()
        .filter_map(|device| tree.number(device))
        .collect();
    let loops = loop_device::lying_on(&devices)?;
    let named = |it: &Attached| match tree.named(it.number) {
        Some(name) => lies_on_it(name),
        None => format!("loop device {} lies on it", it.number),
    };
    Ok(loops.iter().take(NAMED).map(named).collect())
}

fn related(tree: &DeviceTree, name: &KernelName) -> Vec<KernelName> {
    let mut devices = vec![name.clone()];
    devices.extend(tree.partitions(name));
    devices.extend(tree.disk_of(name));
    devices
}

fn lies_on_it(user: KernelName) -> String {
    format!("{user} lies on it")
}

fn mounts_of(tree: &DeviceTree, devices: &[KernelName]) -> Vec<String> {
    let numbers: Vec<String> = devices
        .iter()
        .filter_map(|device| Some(tree.number(device)?.to_string()))
        .collect();
    // Who cannot be told is not named: that the device is in use is known already.
    let table = mountinfo::read().unwrap_or_default();
    table
        .iter()
        .filter(|line| numbers.contains(&line.device))
        .map(|line| format!("mounted at {}", shown(&line.mount_point.to_string_lossy())))
        .collect()
}

fn swap_on(devices: &[KernelName]) -> Option<String> {
    let table = std::fs::read_to_string(SWAPS).ok()?;
    let is_one = |path: &str| devices.iter().any(|device| device.to_string() == path);
    table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .any(is_one)
        .then(|| "the node swaps to it".to_owned())
}

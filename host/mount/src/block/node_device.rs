//! A block device of the node, found by its facts: the host waits for it, opens it and verifies the facts again.
//!
//! Names can change before the device is open: disks are renumbered, and udev creates links late. So the facts must hold for the opened device, whose
//! number cannot be reused while it is open.

mod choice;
pub(crate) mod hardware;
mod rescan;
mod tree;

use crate::block::{BlockDevice, DeviceNumber, access, loop_device, reopen};
use crate::exclusive;
use crate::failure::kernel;
use crate::plan::device::{CheckedDevice, RequestedFacts, is_covered, not_granted};
use choice::{Found, NAMED, choose, describe};
use rescan::rescan;
use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tree::{DeviceTree, KernelName};
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::document::Grants;
use wasmount_core::mounter::MountError;

/// Interval between two searches for a device. It is negligible beside an attach, which takes seconds, and a search costs well below 1 ms.
const PAUSE: Duration = Duration::from_millis(100);

/// The node of a block device, verified to have its number. The device itself is not open.
struct DeviceNode<'t> {
    tree: &'t DeviceTree,
    name: KernelName,
    place: OwnedFd,
    number: DeviceNumber,
}

/// Finds the device, waits for it as long as the plan says, and opens it. At that moment it has no other user. The descriptor does not exclude later
/// users: code that mounts the device requests an exclusive file system from the kernel (fsconfig(2), `FSCONFIG_CMD_CREATE_EXCL`).
pub(crate) fn open(device: &CheckedDevice, read_only: bool) -> Result<BlockDevice, MountError> {
    open_in(&DeviceTree::default(), device, read_only)
}

/// Whether a grant covers this device, so that a mount of it can belong to the driver.
pub(crate) fn is_granted(grants: &Grants, number: DeviceNumber) -> bool {
    let tree = DeviceTree::default();
    let name = tree.named(number);
    name.is_some_and(|name| is_covered(&grants.devices, &tree.facts_of(&name)))
}

/// The device that has the facts now. `None`: there is not exactly one granted device with these facts.
pub(crate) fn find(device: &CheckedDevice) -> Result<Option<DeviceNumber>, MountError> {
    let tree = DeviceTree::default();
    Ok(find_granted(&tree, device)?.map(|node| node.number))
}

/// Opens a device that this host already opened for a volume. It makes no exclusive claim as `open` does, because users of the volume may have the
/// device open. It is opened for writing if possible.
pub(crate) fn open_shared(device: &CheckedDevice) -> Result<Option<BlockDevice>, MountError> {
    let tree = DeviceTree::default();
    match find_granted(&tree, device)? {
        Some(node) => node.device(false),
        None => Ok(None),
    }
}

/// Opens the device with a number, whoever uses it, for writing if possible. `None`: it is gone, or has no node in `/dev`.
pub(crate) fn numbered(number: DeviceNumber) -> Result<Option<BlockDevice>, MountError> {
    let tree = DeviceTree::default();
    let Some(name) = tree.named(number) else {
        return Ok(None);
    };
    match DeviceNode::open(&tree, &name)? {
        Some(node) if node.number == number => node.device(false),
        _ => Ok(None),
    }
}

/// Verifies that a device has no user, and returns it. `None`: it is gone. A process that looks at it for a moment, such as udev, does not count.
pub(crate) fn claim_unused(number: DeviceNumber) -> Result<Option<OwnedFd>, MountError> {
    let tree = DeviceTree::default();
    let Some(name) = tree.named(number) else {
        return Ok(None);
    };
    let claim = || match DeviceNode::open(&tree, &name)? {
        Some(node) => node.claim(),
        None => Ok(None),
    };
    let claimed = exclusive::retry(|| match claim() {
        Err(MountError::InUse(_)) => Ok(None),
        claimed => claimed.map(Some),
    })?;
    // The last attempt says who uses it.
    claimed.map_or_else(claim, Ok)
}

fn find_granted<'t>(
    tree: &'t DeviceTree,
    device: &CheckedDevice,
) -> Result<Option<DeviceNode<'t>>, MountError> {
    match choose(&search_each(tree, device)?) {
        Ok(Some((_, name))) if is_covered(&device.grants, &tree.facts_of(name)) => {
            DeviceNode::open(tree, name)
        }
        _ => Ok(None),
    }
}

fn open_in(
    tree: &DeviceTree,
    device: &CheckedDevice,
    read_only: bool,
) -> Result<BlockDevice, MountError> {
    let begin = Instant::now();
    let end = begin + device.wait;
    // Not more often: a rescan disturbs the other disks of a host.
    let rescans = device.rescan.then_some([begin, begin + device.wait / 2]);
    let mut rescans = rescans.into_iter().flatten().peekable();
    let mut rescanned = None;
    loop {
        let missing = match try_open(tree, device, read_only)? {
            Ok(opened) => return Ok(opened),
            Err(missing) => missing,
        };
        if rescans.next_if(|due| *due <= Instant::now()).is_some() {
            rescanned = Some(rescan(&tree.sys, end));
            continue;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let requested = describe(&device.alternatives);
            let waited = device.wait.as_millis();
            let reasons: Vec<_> = [missing].into_iter().chain(rescanned).collect();
            let reasons = reasons.join("; ");
            let what = format!("a block device with {requested} (waited {waited} ms: {reasons})");
            return Err(MountError::not_found(what));
        }
        std::thread::sleep(left.min(PAUSE));
    }
}

/// One search: the device, or a message about what is still missing.
fn try_open(
    tree: &DeviceTree,
    device: &CheckedDevice,
    read_only: bool,
) -> Result<Result<BlockDevice, String>, MountError> {
    let missing = |reason| Ok(Err(reason));
    let found = search_each(tree, device)?;
    let Some((facts, name)) = choose(&found)? else {
        return Ok(Err(absent_each(tree, device)?));
    };
    // The grant is checked before the device is opened, because opening can make a disk spin up.
    check_granted(tree, device, facts, name)?;
    let Some(node) = DeviceNode::open(tree, name)? else {
        return missing(format!(
            "{name} has them, but no node of its number in /dev"
        ));
    };
    let (Some(claim), Some(opened)) = (node.claim()?, node.device(read_only)?) else {
        return missing(format!("{name} has them, but its node leads to no device"));
    };
    // The open node fixes the number. Only now can the host verify that the facts belong to this device, and not to one that had the number before.
    let again = search_each(tree, device)?;
    let is_meant = choose(&again)?.is_some_and(|(_, meant)| meant == name);
    if tree.named(node.number).as_ref() != Some(name) || !is_meant {
        return missing(format!("{name} was exchanged while it was opened"));
    }
    check_granted(tree, device, facts, name)?;
    drop(claim);
    Ok(Ok(opened))
}

/// The devices that each alternative leads to.
fn search_each<'d>(
    tree: &DeviceTree,
    device: &'d CheckedDevice,
) -> Result<Vec<Found<'d>>, MountError> {
    let each = device.alternatives.iter().map(|facts| {
        let names = search(tree, facts)?;
        Ok(Found { facts, names })
    });
    each.collect()
}

/// All devices that have these facts. Facts of a disk also apply to its partitions.
fn search(tree: &DeviceTree, facts: &RequestedFacts) -> Result<Vec<KernelName>, MountError> {
    let links = links(tree, facts)?;
    // If the facts contain links, only their targets are searched, so that no other disk is accessed.
    let mut found: BTreeSet<KernelName> = if links.is_empty() {
        tree.names().into_iter().collect()
    } else {
        let led_to = links.iter().filter_map(|(_, to)| to.as_ref());
        led_to
            .flat_map(|to| tree.partitions(to).into_iter().chain([to.clone()]))
            .collect()
    };
    found.retain(|name| {
        let disk = tree.disk_of(name);
        // A partition is selected by its number or by its own link. Facts of the disk alone select the disk, not the partition.
        let is_meant = disk.is_none()
            || facts.contains_key(&DeviceFact::Partition)
            || links.iter().any(|(_, to)| to.as_ref() == Some(name));
        let leads_here = |to: &KernelName| to == name || disk.as_ref() == Some(to);
        let has = |(fact, value): (&DeviceFact, &String)| match fact.is_link() {
            true => links
                .iter()
                .any(|(of, to)| of == fact && to.as_ref().is_some_and(leads_here)),
            false => tree.value(name, *fact).as_ref() == Some(value),
        };
        // sysfs shows a path of an NVMe multipath device without a number. Such a path cannot be opened.
        tree.number(name).is_some() && is_meant && facts.iter().all(has)
    });
    // A multipath map stands for its paths: they have the same facts, and must not be used beside it.
    let maps = found.iter().filter_map(|name| tree.map(name));
    let paths = maps.flat_map(|map| map.paths());
    let paths: BTreeSet<_> = paths.map(|path| KernelName::of_node(&path)).collect();
    found.retain(|name| !paths.contains(name));
    Ok(found.into_iter().collect())
}

/// The current targets of the links among the facts.
fn links(
    tree: &DeviceTree,
    facts: &RequestedFacts,
) -> Result<Vec<(DeviceFact, Option<KernelName>)>, MountError> {
    let links = facts.iter().filter(|(fact, _)| fact.is_link());
    links
        .map(|(fact, value)| Ok((*fact, tree.link(*fact, value)?)))
        .collect()
}

/// A message why no alternative leads to a device, without repetitions.
fn absent_each(tree: &DeviceTree, device: &CheckedDevice) -> Result<String, MountError> {
    let mut reasons = Vec::new();
    for facts in &device.alternatives {
        let reason = absent(tree, facts)?;
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    Ok(reasons.join("; "))
}

/// A message why no device has the facts.
fn absent(tree: &DeviceTree, facts: &RequestedFacts) -> Result<String, MountError> {
    let astray = |(fact, to): (DeviceFact, Option<KernelName>)| match to {
        None => Some(format!("there is no such {}", fact.name())),
        Some(name) if tree.number(&name).is_none() => Some(format!(
            "{} leads to {name}, which is not there",
            fact.name()
        )),
        Some(_) => None,
    };
    let mut astray = links(tree, facts)?.into_iter().filter_map(astray);
    Ok(astray
        .next()
        .unwrap_or_else(|| "no device has all of them".to_owned()))
}

fn check_granted(
    tree: &DeviceTree,
    device: &CheckedDevice,
    facts: &RequestedFacts,
    name: &KernelName,
) -> Result<(), MountError> {
    match is_covered(&device.grants, &tree.facts_of(name)) {
        true => Ok(()),
        false => Err(not_granted(device.step, facts)),
    }
}

/// Whether a device is a multipath map that only its partitions hold, and nobody uses them. kpartx makes them of what is written on the volume; they
/// end with the map.
fn has_unused_partitions(tree: &DeviceTree, name: &KernelName) -> Result<bool, MountError> {
    let partitions = tree.map(name).and_then(|map| map.partitions());
    let partitions = partitions.unwrap_or_default();
    for partition in &partitions {
        if let Some(node) = DeviceNode::open(tree, &KernelName::of_node(partition))?
            && node.claim().is_err()
        {
            return Ok(false);
        }
    }
    Ok(!partitions.is_empty())
}

/// A message that lists loop devices on a device, on its partitions or on its disk. They are found by the number of the backing device, because paths
/// are not reliable. kubelet attaches a loop device to each raw block volume at its target path.
fn loops_on(tree: &DeviceTree, name: &KernelName) -> Result<String, MountError> {
    let mut related = tree.partitions(name);
    related.extend(tree.disk_of(name));
    related.push(name.clone());
    let numbers: Vec<_> = related.iter().filter_map(|it| tree.number(it)).collect();
    let loops = loop_device::lying_on(&numbers)?;
    let named = loops.iter().take(NAMED).map(|it| {
        let name = tree.named(it.number);
        let name = name.map_or_else(|| it.number.to_string(), |name| name.to_string());
        format!("{name} lies on it")
    });
    Ok(named.collect::<Vec<_>>().join(", "))
}

/// Whether an error number means that there is no device behind a node.
fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM)
}

impl<'t> DeviceNode<'t> {
    /// Opens a node without opening the device. Opening the wrong device has side effects: a tape rewinds, a watchdog starts. `None`: the node is
    /// missing, or still belongs to another device.
    fn open(tree: &'t DeviceTree, name: &KernelName) -> Result<Option<Self>, MountError> {
        let Some(number) = tree.number(name) else {
            return Ok(None);
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&tree.dev, flags | OFlags::DIRECTORY, Mode::empty())
            .map_err(|errno| kernel("open", tree.dev.display(), errno))?;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(&directory, name.below_dev(), flags, Mode::empty(), resolve);
        let place = match opened {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(kernel("openat2", name, errno)),
        };
        let found = fstat(&place).map_err(|errno| kernel("fstat", name, errno))?;
        let Some(found) = DeviceNumber::of_node(&found) else {
            return Err(MountError::unusable(
                tree.node(name).display().to_string(),
                "it is not a block device; remove it, and let udev create the node again",
            ));
        };
        Ok((found == number).then(|| Self {
            tree,
            name: name.clone(),
            place,
            number,
        }))
    }

    /// Verifies that the device has no other user, by a brief exclusive open (open(2), `O_EXCL` without `O_CREAT`). It is opened for reading only,
    /// because udev probes a device again after a writer closes it. `None`: there is no device behind the node.
    fn claim(&self) -> Result<Option<OwnedFd>, MountError> {
        let Self { tree, name, .. } = self;
        let in_use = |by: &str| MountError::in_use(format!("device {name}"), by);
        let claimed = match self.reopen(OFlags::RDONLY | OFlags::EXCL) {
            Err(Errno::BUSY) if has_unused_partitions(tree, name)? => self.reopen(OFlags::RDONLY),
            claimed => claimed,
        };
        match claimed {
            // A loop device does not claim the device below it.
            Ok(claim) => match loops_on(tree, name)? {
                loops if loops.is_empty() => Ok(Some(claim)),
                loops => Err(in_use(&loops)),
            },
            Err(Errno::BUSY) => Err(in_use(
                "it is mounted, the node swaps to it, or another device or program has it; `lsblk` and `fuser -v` on the node show which, for another mount namespace `grep` of its number in /proc/*/mountinfo",
            )),
            Err(errno) if is_absent(errno) => Ok(None),
            Err(errno) => Err(kernel("open", name, errno)),
        }
    }

    /// The opened device. It is opened for writing if that is possible and requested. `None`: there is no device behind the node.
    fn device(&self, read_only: bool) -> Result<Option<BlockDevice>, MountError> {
        let is_read_only = self.tree.is_read_only(&self.name);
        let file = match self.reopen(access(read_only || is_read_only)) {
            Ok(file) => file,
            Err(errno) if is_absent(errno) => return Ok(None),
            Err(errno) => return Err(kernel("open", &self.name, errno)),
        };
        Ok(Some(BlockDevice {
            file,
            number: self.number,
            path: self.tree.node(&self.name),
            backing: None,
            storage: None,
            is_read_only,
        }))
    }

    /// Opens the device without waiting for a medium.
    fn reopen(&self, access: OFlags) -> Result<OwnedFd, Errno> {
        reopen(&self.place, access | OFlags::NONBLOCK)
    }
}

#[cfg(test)]
mod tests;

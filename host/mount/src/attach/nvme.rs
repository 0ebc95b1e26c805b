//! NVMe over TCP by the kernel alone (nvme-tcp): controllers of a subsystem, which all its namespaces on the node share, and namespaces over all paths,
//! which the kernel joins.
//!
//! One controller may serve volumes of several drivers, and other programs' namespaces: the kernel has one for each address. The mounter disconnects
//! those that it connected, once no namespace of the subsystem is in use.

mod connect;
mod failure;
mod identification;
mod subsystem;

use super::{Owner, PAUSE, refuse_shown, turn};
use crate::block::{DeviceNumber, SECTOR_BYTES, node_device};
use crate::connections::{Connections, Whose};
use crate::exclusive::Claim;
use crate::failure::{io, kernel};
use crate::initiator::InitiatorFiles;
use crate::plan::attach::NvmeNamespace;
use crate::plan::matches;
use crate::sysfs::{SYS, attribute};
use connect::Keys;
use failure::{Failure, Missing};
use identification::verify;
use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use subsystem::Subsystem;
use wasmount_core::document::{AttachGrant, AttachProtocol};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::attached::option;
use wasmount_core::secrets::SecretOptions;
use wasmount_sys::nvme::{IDENTIFY_BYTES, Identify, identify};

/// Where the kernel takes connects and names controllers.
const FABRICS: &str = "/dev/nvme-fabrics";
const CLASS: &str = "class/nvme";
/// The answer of the kernel to a connect: `instance=0,cntlid=1`.
const ANSWER_BYTES: usize = 64;
/// After this time no further address is tried. 40 s: the kernel gives up an address that does not answer after 3 s, and a call's default budget is
/// 60 s.
const CONNECT_TIME: Duration = Duration::from_secs(40);
/// How long a storage system may take to say what a namespace is. It answers within milliseconds.
const IDENTIFY_TIME: Duration = Duration::from_secs(10);
/// How long the kernel may take to notice a new size, which the storage system has confirmed. It takes milliseconds.
const RESCAN_TIME: Duration = Duration::from_secs(10);
/// How long the kernel may take to find namespaces after a connect, whatever a plan says. It begins when the connect has ended.
const SCAN_TIME: Duration = Duration::from_secs(2);
/// Interval between two scans for a namespace that the storage system has not mapped yet: most announce one, but not all.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// The size of a namespace in what Identify returns, in blocks (NVM Command Set Specification 1.0, figure 97, NSZE).
const SIZE: usize = 8;

/// Attaches the namespace: connects to the addresses that have no controller yet, and waits until enough paths lead to it.
pub(super) fn attach(
    owner: &Owner<'_>,
    namespace: &NvmeNamespace,
    secrets: &SecretOptions,
) -> Result<(), MountError> {
    let failures = {
        let _turn = alone(namespace.subsystem.as_str())?;
        connect_all(owner, namespace, secrets)?
    };
    // Without a controller nothing will appear.
    let wait = match read(namespace.subsystem.as_str()).controllers.is_empty() {
        true => Duration::ZERO,
        false => namespace.wait.max(SCAN_TIME),
    };
    let begin = Instant::now();
    let mut scan = Instant::now();
    loop {
        let missing = match look(namespace) {
            Ok(()) => break,
            Err(missing) => missing,
        };
        if begin.elapsed() >= wait {
            return Err(missing.error(namespace, wait, &failures));
        }
        if Instant::now() >= scan {
            rescan_all(&read(namespace.subsystem.as_str()));
            scan = Instant::now() + SCAN_INTERVAL;
        }
        std::thread::sleep(PAUSE);
    }
    if !failures.is_empty() {
        let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
        tracing::warn!(
            subsystem = namespace.subsystem.as_str(),
            failures = failures.join("; "),
            "a volume has fewer paths than addresses; the missing ones are connected at the next stage"
        );
    }
    Ok(())
}

/// Disconnects the controllers that the mounter connected, unless the subsystem is in use. The namespace itself stays as long as they do.
pub(super) fn detach(
    owner: &Owner<'_>,
    namespace: &NvmeNamespace,
    is_last: impl Fn() -> bool,
) -> Result<(), MountError> {
    let nqn = namespace.subsystem.as_str();
    let _turn = alone(nqn)?;
    match is_last() && !is_in_use(&read(nqn))? {
        true => disconnect(&owner.node.connections, nqn, &namespace.addresses),
        false => Ok(()),
    }
}

/// The same for subsystems that no record of a volume names.
pub(super) fn end_unrecorded(connections: &Connections, is_recorded: impl Fn(&str) -> bool) {
    let end = |nqn: &str, addresses: &[SocketAddr]| {
        let _turn = alone(nqn)?;
        if is_recorded(nqn) {
            return Ok(());
        }
        let subsystem = read(nqn);
        if is_in_use(&subsystem)? {
            return Err(MountError::in_use(nqn, "a mount, or a program"));
        }
        let mut namespaces = subsystem.namespaces.values();
        namespaces.try_for_each(|it| refuse_shown(it.number))?;
        disconnect(connections, nqn, addresses)
    };
    for (nqn, addresses) in connections.all() {
        if let Err(error) = end(&nqn, &addresses) {
            tracing::warn!(subsystem = nqn, %error, "connections without a volume stay; they end with the next volume of the subsystem, or at a later start");
        }
    }
}

/// Disconnects all controllers of the subsystem that the mounter connected, and forgets them, and whatever was at these addresses.
fn disconnect(
    connections: &Connections,
    nqn: &str,
    addresses: &[SocketAddr],
) -> Result<(), MountError> {
    let subsystem = read(nqn);
    for (name, controller) in &subsystem.controllers {
        let Some(address) = controller.address else {
            continue;
        };
        let folder = folder(name);
        let Ok(found) = fs::metadata(&folder) else {
            continue;
        };
        if connections.whose(nqn, address, found.ino()) == Whose::Other {
            continue;
        }
        match fs::write(folder.join("delete_controller"), "1") {
            Ok(()) => tracing::info!(subsystem = nqn, %address, "disconnected"),
            // It is gone, or the kernel removes it already.
            Err(error) if !folder.exists() => drop(error),
            Err(error) => return Err(io("disconnect", described(nqn, address), &error)),
        }
        recorded(nqn, address, connections.forget(nqn, address))?;
    }
    // Of those that somebody else disconnected.
    for &address in addresses {
        if subsystem.at(address).is_none() {
            recorded(nqn, address, connections.forget(nqn, address))?;
        }
    }
    Ok(())
}

/// Has the kernel look at its namespaces again, and waits until it shows the size that the storage system tells.
pub(super) fn rescan(namespace: &NvmeNamespace) -> Result<(), MountError> {
    let end = Instant::now() + RESCAN_TIME;
    rescan_all(&read(namespace.subsystem.as_str()));
    loop {
        let subsystem = read(namespace.subsystem.as_str());
        let chosen = subsystem.choose(namespace.id, 1);
        let (name, found) =
            chosen.map_err(|missing| missing.error(namespace, Duration::ZERO, &[]))?;
        let size = told_size(&subsystem, name, found.id)?;
        let seen = found.number.size_bytes()?;
        if size == seen {
            return Ok(());
        }
        if Instant::now() >= end {
            let reason = format!(
                "the storage system says that it has {size} bytes, and the kernel shows {seen} bytes; look at the kernel's log"
            );
            return Err(MountError::hung(format!("/dev/{name}"), reason));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether a device is a namespace of a subsystem that a driver may attach from, so that a mount of it can belong to the driver.
pub(super) fn is_granted(grants: &[AttachGrant], number: DeviceNumber) -> bool {
    let device = Path::new(SYS).join(format!("dev/block/{number}/device"));
    let Some(nqn) = attribute(&device.join("subsysnqn")) else {
        return false;
    };
    let subsystem = read(&nqn);
    let controllers = subsystem.controllers.values();
    let addresses: Vec<_> = controllers.filter_map(|it| it.address).collect();
    grants.iter().any(|grant| {
        grant.protocol == AttachProtocol::NvmeTcp
            && grant.targets.iter().any(|pattern| matches(pattern, &nqn))
            && addresses.iter().any(|address| grant.has_portal(*address))
    })
}

/// Connects to the addresses that have no controller. Returns why some have none afterwards.
fn connect_all(
    owner: &Owner<'_>,
    namespace: &NvmeNamespace,
    secrets: &SecretOptions,
) -> Result<Vec<Failure>, MountError> {
    let connections = &owner.node.connections;
    let nqn = namespace.subsystem.as_str();
    let keys = Keys {
        host: secrets.get(option::HOST_KEY),
        controller: secrets.get(option::CONTROLLER_KEY),
    };
    let end = Instant::now() + CONNECT_TIME;
    let initiator = InitiatorFiles::of(owner.node.node_root.as_deref());
    let mut host = None;
    let mut failures = Vec::new();
    for &address in &namespace.addresses {
        if let Some((name, _)) = read(namespace.subsystem.as_str()).at(address) {
            adopt(connections, nqn, address, name)?;
            continue;
        }
        if !failures.is_empty() && Instant::now() >= end {
            let errno = None;
            failures.push(Failure { address, errno });
            continue;
        }
        let host = match &mut host {
            Some(host) => host,
            None => host.insert(initiator.nvme_host()?),
        };
        let options = connect::options(address, &namespace.subsystem, host, keys)
            .map_err(|invalid| MountError::unusable(described(nqn, address), invalid))?;
        recorded(nqn, address, connections.intend(nqn, address))?;
        match connect_to(&options) {
            Ok(name) => adopt(connections, nqn, address, &name)?,
            Err(errno) => {
                recorded(nqn, address, connections.forget(nqn, address))?;
                // Another program was faster.
                if errno != Errno::ALREADY {
                    let errno = Some(errno);
                    failures.push(Failure { address, errno });
                }
            }
        }
    }
    Ok(failures)
}

/// Tells the kernel to connect; returns the name of the controller.
fn connect_to(options: &str) -> Result<String, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fabrics = rustix::fs::open(FABRICS, flags, Mode::empty())?;
    // All in one write. The kernel returns when the controller is live or the connect failed, which it bounds itself.
    rustix::io::write(&fabrics, options.as_bytes())?;
    let mut answer = [0; ANSWER_BYTES];
    let length = rustix::io::read(&fabrics, &mut answer)?;
    let answer = answer
        .get(..length)
        .and_then(|it| std::str::from_utf8(it).ok());
    let answer = answer.and_then(|it| it.strip_prefix("instance="));
    let instance = answer.and_then(|it| it.split(',').next()?.trim().parse::<u32>().ok());
    instance.map(|it| format!("nvme{it}")).ok_or(Errno::PROTO)
}

/// Records a controller that the mounter connected, and forgets that one of another program was its own once.
fn adopt(
    connections: &Connections,
    nqn: &str,
    address: SocketAddr,
    name: &str,
) -> Result<(), MountError> {
    // It may have vanished meanwhile, which the wait for its paths finds.
    let Ok(found) = fs::metadata(folder(name)) else {
        return Ok(());
    };
    let change = match connections.whose(nqn, address, found.ino()) {
        Whose::Own => Ok(()),
        Whose::Intended => connections.done(nqn, address, found.ino()),
        Whose::Other => connections.forget(nqn, address),
    };
    recorded(nqn, address, change)
}

/// The result of a change of the record of a controller.
fn recorded(nqn: &str, address: SocketAddr, change: std::io::Result<()>) -> Result<(), MountError> {
    change.map_err(|error| io("record", described(nqn, address), &error))
}

/// Whether the namespace can be used.
fn look(namespace: &NvmeNamespace) -> Result<(), Missing> {
    let subsystem = read(namespace.subsystem.as_str());
    verify(
        &subsystem,
        namespace.id,
        namespace.minimum_paths,
        |by, id| ask(by, id, Identify::Descriptors),
    )
}

/// The size of a namespace as the storage system tells it, in bytes.
fn told_size(subsystem: &Subsystem, name: &str, id: u32) -> Result<u64, MountError> {
    let (controller, _) = subsystem.paths_to(name).next().ok_or_else(|| {
        MountError::hung(format!("/dev/{name}"), "no path to it carries requests")
    })?;
    let told = ask(controller, id, Identify::Namespace)
        .map_err(|errno| kernel("identify", format!("/dev/{name}"), errno))?;
    let blocks = told.first_chunk::<SIZE>().copied().unwrap_or_default();
    let block = Path::new(SYS).join(format!("class/block/{name}/queue/logical_block_size"));
    let block_bytes = attribute(&block).and_then(|it| it.parse().ok());
    Ok(u64::from_le_bytes(blocks).saturating_mul(block_bytes.unwrap_or(SECTOR_BYTES)))
}

/// Asks the storage system about a namespace, by this controller.
fn ask(controller: &str, id: u32, what: Identify) -> Result<Box<[u8; IDENTIFY_BYTES]>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let device = rustix::fs::open(Path::new("/dev").join(controller), flags, Mode::empty())?;
    let number = DeviceNumber::of_raw(fstat(&device)?.st_rdev);
    // The node may be an earlier controller's.
    let is_its = attribute(&folder(controller).join("dev")) == Some(number.to_string());
    match is_its {
        true => identify(&device, id, what, IDENTIFY_TIME),
        false => Err(Errno::NODEV),
    }
}

/// Whether a namespace of the subsystem has a user: a mount, another device, a program that holds it.
fn is_in_use(subsystem: &Subsystem) -> Result<bool, MountError> {
    for namespace in subsystem.namespaces.values() {
        match node_device::claim_unused(namespace.number) {
            Ok(_) => {}
            Err(MountError::InUse(_)) => return Ok(true),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Has all live controllers look at their namespaces. The kernel does so later, by itself.
fn rescan_all(subsystem: &Subsystem) {
    for (name, controller) in &subsystem.controllers {
        // A controller that goes away meanwhile has nothing to look at.
        if controller.is_live() {
            let _ = fs::write(folder(name).join("rescan_controller"), "1");
        }
    }
}

/// One call at a time changes the connections of a subsystem, or decides that they are not needed.
fn alone(nqn: &str) -> Result<Claim<'static, String>, MountError> {
    turn(nqn.to_owned(), nqn)
}

fn read(nqn: &str) -> Subsystem {
    Subsystem::read(Path::new(SYS), nqn)
}

/// The directory of a controller. The one that the link leads to: each controller has another.
fn folder(controller: &str) -> PathBuf {
    Path::new(SYS).join(CLASS).join(controller)
}

fn described(nqn: &str, address: SocketAddr) -> String {
    format!("subsystem {nqn} at {address}")
}

//! iSCSI sessions and SCSI disks as sysfs shows them.
//!
//! It only reads small files and writes to attributes, so it can be tested on trees of plain files.

use crate::block::DeviceNumber;
use crate::block::loop_device::digits;
use crate::block::multipath::Map;
use crate::failure::io;
use crate::plan::attach::IscsiPath;
use crate::sysfs::{self, attribute, entries};
use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;

/// The only channel of an iSCSI session.
const CHANNEL: u32 = 0;
/// What the kernel shows of a session with a connection (`iscsi_session_state_names`, drivers/scsi/scsi_transport_iscsi.c).
const CONNECTED: &str = "LOGGED_IN";
/// What the kernel shows of a disk that takes requests (`sdev_states`, drivers/scsi/scsi_sysfs.c).
const RUNNING: &str = "running";
/// What makes the kernel fail all requests to a disk at once; it wants the whole line (`store_state_field`, drivers/scsi/scsi_sysfs.c).
const OFFLINE: &str = "offline\n";

/// sysfs, for one driver.
pub(super) struct Scsi {
    sys: PathBuf,
    /// The name of the interface of open-iscsi by which the driver's mounter logs in. The kernel keeps it with the session, so that sessions of this
    /// driver are told from all others even if every journal is lost. open-iscsi's names have 64 bytes.
    pub(super) interface: String,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    /// The number of the session.
    pub(super) id: u32,
    host: u32,
    target: u32,
    state: String,
}

/// A place of a disk on a SCSI host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disk {
    host: u32,
    target: u32,
    lun: u64,
}

impl Session {
    /// Whether requests reach the target.
    pub(super) fn is_connected(&self) -> bool {
        self.state == CONNECTED
    }

    /// The place of a logical unit.
    pub(super) fn disk(&self, lun: u16) -> Disk {
        Disk {
            host: self.host,
            target: self.target,
            lun: lun.into(),
        }
    }
}

impl Scsi {
    pub(super) fn of(driver: &DriverName) -> Self {
        Self::new("/sys".into(), driver)
    }

    fn new(sys: PathBuf, driver: &DriverName) -> Self {
        let interface = format!("wasmount-{}", digits(&[driver.as_str()]));
        Self { sys, interface }
    }

    /// The driver's session by a path.
    pub(super) fn session(&self, path: &IscsiPath) -> Option<Session> {
        let class = self.sys.join("class/iscsi_session");
        let mut names = entries(&class);
        names.find_map(|name| {
            let folder = class.join(&name);
            let is_its = attribute(&folder.join("ifacename"))? == self.interface
                && attribute(&folder.join("targetname"))? == path.target.as_str()
                && self.portal(&name) == Some(path.portal);
            is_its.then(|| session(&name, &folder)).flatten()
        })
    }

    /// Where the driver's sessions lead, each to logical unit 0.
    pub(super) fn paths(&self) -> Vec<IscsiPath> {
        let class = self.sys.join("class/iscsi_session");
        let paths = entries(&class).filter_map(|name| {
            let folder = class.join(&name);
            let is_its = attribute(&folder.join("ifacename"))? == self.interface;
            let target = attribute(&folder.join("targetname")).filter(|_| is_its)?;
            IscsiPath::to_target(self.portal(&name)?, &target)
        });
        paths.collect()
    }

    /// The portal that a session was made to. A target may have redirected it since: the address that counts is the persistent one.
    fn portal(&self, session: &str) -> Option<SocketAddr> {
        let number = session.strip_prefix("session")?;
        // Linux has one connection for each session.
        let connection = format!("class/iscsi_connection/connection{number}:0");
        let value = |name: &str| attribute(&self.sys.join(&connection).join(name));
        let address: IpAddr = value("persistent_address")?.parse().ok()?;
        Some(SocketAddr::new(
            address,
            value("persistent_port")?.parse().ok()?,
        ))
    }

    /// All disks of a session, and whatever else its target has.
    pub(super) fn disks(&self, session: &Session) -> Vec<Disk> {
        let names = entries(&self.sys.join("class/scsi_device"));
        let disks = names.filter_map(|name| Disk::parse(&name));
        disks.filter(|disk| disk.host == session.host).collect()
    }

    pub(super) fn has(&self, disk: &Disk) -> bool {
        self.folder(disk).exists()
    }

    /// The identity that the kernel read last: of VPD page 83.
    pub(super) fn wwid(&self, disk: &Disk) -> Option<String> {
        attribute(&self.folder(disk).join("wwid"))
    }

    /// Whether it takes requests.
    pub(super) fn is_running(&self, disk: &Disk) -> bool {
        attribute(&self.folder(disk).join("state")).as_deref() == Some(RUNNING)
    }

    /// The kernel's name of its block device, once it has one.
    pub(super) fn block(&self, disk: &Disk) -> Option<String> {
        entries(&self.folder(disk).join("block")).next()
    }

    /// The number of its block device.
    pub(super) fn number(&self, disk: &Disk) -> Option<DeviceNumber> {
        let block = self.folder(disk).join("block").join(self.block(disk)?);
        DeviceNumber::parse(&attribute(&block.join("dev"))?)
    }

    /// The multipath map of a disk.
    pub(super) fn map(&self, wwid: &str) -> Option<Map> {
        Map::of_disk(&self.sys, wwid)
    }

    /// The map that has a device as one of its paths.
    pub(super) fn map_on(&self, block: &str) -> Option<Map> {
        Map::on(&self.sys, block)
    }

    /// The map that has a disk as one of its paths.
    pub(super) fn map_over(&self, disk: &Disk) -> Option<Map> {
        self.map_on(&self.block(disk)?)
    }

    /// Has the kernel look for this disk alone.
    pub(super) fn scan(&self, disk: &Disk) -> Result<(), MountError> {
        let attribute = format!("class/scsi_host/host{}/scan", disk.host);
        let Disk { target, lun, .. } = disk;
        write(
            &self.sys.join(attribute),
            &format!("{CHANNEL} {target} {lun}"),
        )
    }

    /// Has the kernel read size and identity again.
    pub(super) fn rescan(&self, disk: &Disk) -> Result<(), MountError> {
        write(&self.folder(disk).join("rescan"), "1")
    }

    /// Whether a block device is the disk with this identity, which the kernel reads again.
    pub(super) fn leads_to(&self, block: &str, wwid: &str) -> bool {
        let folder = self.sys.join("class/block").join(block).join("device");
        // One that takes no requests would not answer.
        attribute(&folder.join("state")).as_deref() == Some(RUNNING)
            && write(&folder.join("rescan"), "1").is_ok()
            && attribute(&folder.join("wwid")).as_deref() == Some(wwid)
    }

    /// Has the kernel fail all requests to it.
    pub(super) fn set_offline(&self, disk: &Disk) -> Result<(), MountError> {
        write(&self.folder(disk).join("state"), OFFLINE)
    }

    /// Removes it from the node. It is not removed from the storage system.
    pub(super) fn delete(&self, disk: &Disk) -> Result<(), MountError> {
        match write(&self.folder(disk).join("delete"), "1") {
            Err(_) if !self.has(disk) => Ok(()),
            written => written,
        }
    }

    /// Whether a block device is behind a session of the driver: itself, or a path of a map.
    pub(super) fn has_attached(&self, number: DeviceNumber) -> bool {
        let devices = match Map::with_number(&self.sys, number) {
            Some(map) => {
                let paths = map.paths().into_iter();
                paths.map(|path| format!("class/block/{path}")).collect()
            }
            None => vec![format!("dev/block/{number}")],
        };
        devices.iter().any(|device| {
            let folder = fs::canonicalize(self.sys.join(device)).unwrap_or_default();
            let mut names = folder.iter().filter_map(|part| part.to_str());
            let session = names.find(|part| number_after("session", part).is_some());
            session.is_some_and(|session| {
                let class = self.sys.join("class/iscsi_session").join(session);
                attribute(&class.join("ifacename")).as_ref() == Some(&self.interface)
            })
        })
    }

    fn folder(&self, disk: &Disk) -> PathBuf {
        let name = disk.to_string();
        self.sys.join("class/scsi_device").join(name).join("device")
    }
}

impl Disk {
    fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.split(':');
        let mut next = || numbers.next();
        let (host, channel, target, lun) = (next()?, next()?, next()?, next()?);
        let disk = Self {
            host: host.parse().ok()?,
            target: target.parse().ok()?,
            lun: lun.parse().ok()?,
        };
        (channel.parse() == Ok(CHANNEL) && next().is_none()).then_some(disk)
    }
}

/// Its name in sysfs.
impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, target, lun } = self;
        write!(f, "{host}:{CHANNEL}:{target}:{lun}")
    }
}

fn session(name: &str, folder: &Path) -> Option<Session> {
    // ../devices/platform/host3/session1/iscsi_session/session1
    let place = fs::canonicalize(folder).ok()?;
    let mut parts = place.iter().filter_map(|part| part.to_str());
    Some(Session {
        id: number_after("session", name)?,
        host: parts.find_map(|part| number_after("host", part))?,
        target: attribute(&folder.join("target_id"))?.parse().ok()?,
        state: attribute(&folder.join("state"))?,
    })
}

fn number_after(start: &str, name: &str) -> Option<u32> {
    name.strip_prefix(start)?.parse().ok()
}

fn write(path: &Path, value: &str) -> Result<(), MountError> {
    sysfs::write(path, value).map_err(|error| io("write to", path.display(), &error))
}

#[cfg(test)]
mod tests;

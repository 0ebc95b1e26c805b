//! The block devices of a node and their facts: links of udev in `/dev/disk` and attributes in `/sys/class/block`.
//!
//! It only reads small files and links and opens no device, so the search can be tested on trees of plain files.

use crate::block::multipath::Map;
use crate::block::rbd::MappedImage;
use crate::block::{DeviceNumber, SECTOR_BYTES};
use crate::failure::{io, shown};
use crate::plan::device::DeviceFacts;
use crate::sysfs::{attribute, bytes, entries, plain};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use wasmount_core::device_fact::{DeviceFact, is_from_contents};
use wasmount_core::mounter::MountError;

/// Attributes with the serial number of a device: that of virtio first, then that of an NVMe controller or an MMC card.
const SERIAL: [&str; 2] = ["serial", "device/serial"];
/// The SCSI page of the unit serial number (SPC-4, 7.8.18), as the device returned it: a header of four bytes and the number.
const SERIAL_PAGE: &str = "device/vpd_pg80";
const SERIAL_PAGE_HEAD: usize = 4;
/// Attributes with the world wide identifier: of an NVMe namespace, of a SCSI disk.
const WWID: [&str; 2] = ["wwid", "device/wwid"];

/// Directories in which the node's devices are visible.
#[derive(Debug)]
pub(super) struct DeviceTree {
    pub(super) dev: PathBuf,
    pub(super) sys: PathBuf,
}

/// The kernel's name of a device: its directory in `/sys/class/block`. The path of its node below `/dev` has `/` where this name has `!`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KernelName(String);

impl KernelName {
    /// From the path of a node below `/dev`.
    pub(super) fn of_node(below_dev: &str) -> Self {
        Self(below_dev.replace('/', "!"))
    }

    pub(super) fn below_dev(&self) -> String {
        self.0.replace('!', "/")
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/{}", self.below_dev())
    }
}

impl Default for DeviceTree {
    fn default() -> Self {
        Self::new("/dev".into(), "/sys".into())
    }
}

impl DeviceTree {
    pub(super) fn new(dev: PathBuf, sys: PathBuf) -> Self {
        Self { dev, sys }
    }

    pub(super) fn node(&self, name: &KernelName) -> PathBuf {
        self.dev.join(name.below_dev())
    }

    /// All known facts of a device; for a partition also those of its disk.
    pub(super) fn facts_of(&self, name: &KernelName) -> DeviceFacts {
        let mut facts = DeviceFacts::default();
        for &fact in DeviceFact::ALL {
            facts.extend(self.value(name, fact).map(|value| (fact, value)));
        }
        let disk = self.disk_of(name);
        for fact in [DeviceFact::ById, DeviceFact::ByPath] {
            for link in entries(&self.dev.join("disk").join(fact.name())) {
                let to = self.link(fact, &link).ok().flatten();
                let is_its = to.is_some() && (to.as_ref() == Some(name) || to == disk);
                if is_its && !(fact == DeviceFact::ById && is_from_contents(&link)) {
                    facts.insert((fact, link));
                }
            }
        }
        facts
    }

    /// The number of a device, while the device exists.
    pub(super) fn number(&self, name: &KernelName) -> Option<DeviceNumber> {
        DeviceNumber::parse(&self.text(name, "dev")?)
    }

    /// The device that currently has a number.
    pub(super) fn named(&self, number: DeviceNumber) -> Option<KernelName> {
        number.name(&self.sys).map(KernelName)
    }

    /// Whether the device itself refuses writes.
    pub(super) fn is_read_only(&self, name: &KernelName) -> bool {
        self.text(name, "ro").is_some_and(|text| text == "1")
    }

    /// The size as the kernel lists it, in bytes. `None`: there is none.
    pub(super) fn size_bytes(&self, name: &KernelName) -> Option<u64> {
        let sectors: u64 = self.text(name, "size")?.parse().ok()?;
        Some(sectors.saturating_mul(SECTOR_BYTES))
    }

    /// Whether the kernel makes it of files, memory or other devices: loop devices, device mapper, MD, RAM disks. One that cannot be checked counts as
    /// such.
    pub(super) fn is_virtual(&self, name: &KernelName) -> bool {
        match (fs::canonicalize(self.folder(name)), self.sys.canonicalize()) {
            (Ok(folder), Ok(sys)) => folder.starts_with(sys.join("devices/virtual")),
            _ => true,
        }
    }

    /// All devices of the node.
    pub(super) fn names(&self) -> Vec<KernelName> {
        entries(&self.sys.join("class/block"))
            .map(KernelName)
            .collect()
    }

    /// The partitions of a disk.
    pub(super) fn partitions(&self, disk: &KernelName) -> Vec<KernelName> {
        entries(&self.folder(disk))
            .map(KernelName)
            .filter(|name| self.disk_of(name).as_ref() == Some(disk))
            .collect()
    }

    /// The disk of a partition. `None`: it is not a partition.
    pub(super) fn disk_of(&self, name: &KernelName) -> Option<KernelName> {
        self.text(name, "partition")?;
        // The directory of a partition lies in that of its disk.
        let folder = fs::canonicalize(self.folder(name)).ok()?;
        let disk = folder.parent()?.file_name()?.to_str()?;
        Some(KernelName(disk.to_owned()))
    }

    /// The target of a link. Only this link is followed: its target must be a node and not another link.
    pub(super) fn link(
        &self,
        fact: DeviceFact,
        value: &str,
    ) -> Result<Option<KernelName>, MountError> {
        let folder = Path::new("disk").join(fact.name());
        let link = self.dev.join(&folder).join(value);
        let target = match fs::read_link(&link) {
            Ok(target) => target,
            // Nothing exists there, or it is not a link.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
                return Ok(None);
            }
            Err(error) => return Err(io("readlink", shown(&link.to_string_lossy()), &error)),
        };
        match below(&self.dev, &folder, &target) {
            Some(node) => Ok(Some(KernelName::of_node(&node))),
            None => Err(MountError::unusable(
                shown(&link.to_string_lossy()),
                "it leads out of /dev; udev makes no such link, so remove it",
            )),
        }
    }

    /// The value of a fact that is not a link.
    pub(super) fn value(&self, name: &KernelName, fact: DeviceFact) -> Option<String> {
        let disk = self.disk_of(name).unwrap_or_else(|| name.clone());
        let first = |attributes: &[&str]| attributes.iter().find_map(|it| self.text(&disk, it));
        match fact {
            DeviceFact::Partition => self.text(name, "partition"),
            DeviceFact::Nguid => self.text(&disk, "nguid"),
            DeviceFact::Wwid => first(&WWID)
                .or_else(|| self.map(&disk)?.wwid())
                .or_else(|| MappedImage::of_device(&self.sys, &disk.0)?.wwid()),
            DeviceFact::Serial => first(&SERIAL).or_else(|| self.serial_page(&disk)),
            // Links lead to a device and are not attributes of it.
            DeviceFact::ById | DeviceFact::ByPath => None,
        }
    }

    /// The multipath map that a device is.
    pub(super) fn map(&self, name: &KernelName) -> Option<Map> {
        Map::named(&self.sys, &name.0)
    }

    fn serial_page(&self, name: &KernelName) -> Option<String> {
        let page = bytes(&self.folder(name).join(SERIAL_PAGE))?;
        plain(page.get(SERIAL_PAGE_HEAD..)?)
    }

    fn text(&self, name: &KernelName, file: &str) -> Option<String> {
        attribute(&self.folder(name).join(file))
    }

    fn folder(&self, name: &KernelName) -> PathBuf {
        self.sys.join("class/block").join(&name.0)
    }
}

/// The target of a link in a directory of `/dev`, relative to `/dev`. `None`: it leads out of `/dev`.
fn below(dev: &Path, folder: &Path, target: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    let from_dev = match target.strip_prefix(dev) {
        Ok(rest) => rest,
        Err(_) if target.is_absolute() => return None,
        Err(_) => &folder.join(target),
    };
    for part in from_dev.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

//! Maps of dm-multipath as sysfs shows them: each is one device in the place of the paths to a disk.
//!
//! It only reads small files, so it can be tested on trees of plain files.

use super::DeviceNumber;
use crate::sysfs::{attribute, entries};
use std::path::{Path, PathBuf};

/// Start of the uuid of a map (`UUID_PREFIX` of multipath-tools). What follows is multipath's identifier of the disk.
const MAP: &str = "mpath-";
/// Start of the uuid of a partition of a map, which kpartx makes: `part1-mpath-…`.
const PARTITION: &str = "part";
/// Characters that udev keeps in an identifier, besides letters and digits (`allow_listed_char_for_devnode`, src/shared/device-nodes.c of systemd).
const KEPT: &str = "#+-.:=@_";

/// A map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map {
    sys: PathBuf,
    /// The kernel's name: `dm-0`.
    device: String,
    uuid: String,
}

impl Map {
    /// That of a disk, by the identity of VPD page 83 as the kernel shows it.
    pub(crate) fn of_disk(sys: &Path, wwid: &str) -> Option<Self> {
        let uuid = format!("{MAP}{}", identifier(wwid)?);
        let mut devices = entries(&sys.join("class/block"));
        devices.find_map(|device| Self::named(sys, &device).filter(|map| map.uuid == uuid))
    }

    /// That which has a device as one of its paths.
    pub(crate) fn on(sys: &Path, path: &str) -> Option<Self> {
        let mut holders = entries(&sys.join("class/block").join(path).join("holders"));
        holders.find_map(|device| Self::named(sys, &device))
    }

    /// That with a number.
    pub(crate) fn with_number(sys: &Path, number: DeviceNumber) -> Option<Self> {
        Self::named(sys, &number.name(sys)?)
    }

    /// That with a name of the kernel. `None`: the device is no map.
    pub(crate) fn named(sys: &Path, device: &str) -> Option<Self> {
        let uuid = attribute(&sys.join("class/block").join(device).join("dm/uuid"))?;
        uuid.starts_with(MAP).then(|| Self {
            sys: sys.to_owned(),
            device: device.to_owned(),
            uuid,
        })
    }

    /// Whether it is still there.
    pub(crate) fn exists(&self) -> bool {
        Self::named(&self.sys, &self.device).as_ref() == Some(self)
    }

    /// The name by which multipathd knows it.
    pub(crate) fn name(&self) -> Option<String> {
        attribute(&self.folder().join("dm/name"))
    }

    pub(crate) fn number(&self) -> Option<DeviceNumber> {
        DeviceNumber::parse(&attribute(&self.folder().join("dev"))?)
    }

    /// The kernel's names of its paths. A device that is gone stays below `slaves` until multipathd has taken it out.
    pub(crate) fn paths(&self) -> Vec<String> {
        let paths = entries(&self.folder().join("slaves"));
        paths.filter(|path| self.path(path).exists()).collect()
    }

    /// The kernel's names of its partitions, if nothing else than them holds it.
    pub(crate) fn partitions(&self) -> Option<Vec<String>> {
        let holders: Vec<_> = entries(&self.folder().join("holders")).collect();
        let is_partition = |device: &String| {
            let uuid = attribute(&self.sys.join("class/block").join(device).join("dm/uuid"));
            uuid.is_some_and(|uuid| uuid.starts_with(PARTITION) && uuid.ends_with(&self.uuid))
        };
        holders.iter().all(is_partition).then_some(holders)
    }

    /// The identity of its disk: that which its paths have, and its uuid names.
    pub(crate) fn wwid(&self) -> Option<String> {
        let identifier = self.uuid.strip_prefix(MAP)?;
        let paths = self.paths().into_iter();
        let mut wwids = paths.filter_map(|path| attribute(&self.path(&path).join("device/wwid")));
        wwids.find(|wwid| self::identifier(wwid).as_deref() == Some(identifier))
    }

    /// Whether it is as large as each of its paths.
    pub(crate) fn has_size_of_paths(&self) -> bool {
        let size = attribute(&self.folder().join("size"));
        let mut paths = self.paths().into_iter();
        paths.all(|path| attribute(&self.path(&path).join("size")) == size)
    }

    fn folder(&self) -> PathBuf {
        self.path(&self.device)
    }

    fn path(&self, device: &str) -> PathBuf {
        self.sys.join("class/block").join(device)
    }
}

/// multipath's identifier of a disk: a digit for the kind of its identity, and the identity (udev's `scsi_id`, which multipath.conf(5) has as the default
/// of `uid_attribute`).
pub(crate) fn identifier(wwid: &str) -> Option<String> {
    let (kind, identity) = wwid.split_once('.')?;
    match kind {
        "naa" => Some(format!("3{identity}")),
        "eui" => Some(format!("2{identity}")),
        "t10" => {
            let words: Vec<_> = identity.split_whitespace().collect();
            let is_kept = |c: char| c.is_ascii_alphanumeric() || KEPT.contains(c);
            let text = words.join("_").replace(|c| !is_kept(c), "_");
            Some(format!("1{text}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;

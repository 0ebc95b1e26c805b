//! A block device that a volume lies on: which one, opened, and what the journal keeps of it. One file below for each way to come by one.

pub(crate) mod loop_device;
pub(crate) mod node_device;

use crate::failure::{io, kernel};
use crate::observe::{Identity, identity};
use crate::plan::CheckedSource;
use rustix::fs::Dev;
use rustix::io::{Errno, pread};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use wasmount_core::mounter::MountError;

/// Unit of the kernel's lists, whatever the device's own sectors are (Documentation/ABI/stable/sysfs-block, `size`).
const SECTOR_BYTES: u64 = 512;

/// A block device's number. Loop devices and hot-plugged disks are numbered anew all the time: alone it says little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct DeviceNumber {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// Which device a volume lies on, for the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockRecord {
    pub(crate) number: DeviceNumber,
    /// The file behind it, for a loop device of ours: by this it is found again.
    pub(crate) backing: Option<Identity>,
}

/// An opened block device. A loop device of ours goes when its last user lets go of it (`LO_FLAGS_AUTOCLEAR`), until it is kept.
#[derive(Debug)]
pub(crate) struct BlockDevice {
    pub(crate) file: OwnedFd,
    pub(crate) number: DeviceNumber,
    /// In `/dev`: for the kernel and for tools. Whoever uses it checks afterwards that it led to `number`.
    pub(crate) path: PathBuf,
    pub(crate) backing: Option<Identity>,
    /// The device itself refuses writes.
    pub(crate) is_read_only: bool,
}

impl DeviceNumber {
    /// From a `dev_t`.
    pub(crate) fn of_raw(raw: Dev) -> Self {
        Self {
            major: rustix::fs::major(raw),
            minor: rustix::fs::minor(raw),
        }
    }

    /// As sysfs writes it: `8:0`, with or without a newline.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim_end().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    /// Size of the device, as the kernel lists it: nothing is opened, so a device that hangs cannot keep anybody here.
    pub(crate) fn size_bytes(self) -> Result<u64, MountError> {
        let listed = format!("/sys/dev/block/{self}/size");
        let text = std::fs::read_to_string(&listed).map_err(|error| io("read", &listed, &error))?;
        let sectors: u64 = text
            .trim()
            .parse()
            .map_err(|_| kernel("understand", &listed, Errno::INVAL))?;
        Ok(sectors.saturating_mul(SECTOR_BYTES))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl BlockDevice {
    /// What the journal keeps.
    pub(crate) fn record(&self) -> BlockRecord {
        BlockRecord {
            number: self.number,
            backing: self.backing,
        }
    }

    /// The device of a record. `None`: it is gone, or its number is another device's now.
    pub(crate) fn recorded(
        block: &BlockRecord,
        source: &CheckedSource,
    ) -> Result<Option<Self>, MountError> {
        match source {
            CheckedSource::Device(device, _) => {
                Ok(node_device::open_shared(device)?.filter(|it| it.number == block.number))
            }
            _ => loop_device::open(block),
        }
    }

    /// Its node in `/dev`: what a mount of it shows.
    pub(crate) fn node(&self) -> Result<Identity, MountError> {
        identity(&self.file, self.path.display())
    }

    /// Reads a range; shorter only at the end of the device. What cannot be read is an error, and not blank.
    pub(crate) fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, MountError> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match pread(&self.file, rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    let device = format!("device {}", self.path.display());
                    return Err(kernel("read", device, errno));
                }
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Its size now.
    pub(crate) fn size_bytes(&self) -> Result<u64, MountError> {
        self.number.size_bytes()
    }
}

//! A block device below a volume: its identity, its open descriptor and its journal record. Each file below covers one way to obtain a device.

pub(crate) mod loop_device;
pub(crate) mod multipath;
pub(crate) mod node_device;
pub(crate) mod rbd;

use crate::failure::{io, kernel};
use crate::observe::{Identity, identity};
use crate::plan::CheckedSource;
use rustix::fs::{Dev, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, pread};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;

/// Unit of the sizes that sysfs lists, whatever the device's own sector size is (Documentation/ABI/stable/sysfs-block, `size`).
pub(crate) const SECTOR_BYTES: u64 = 512;

/// The number of a block device. The kernel reuses numbers of loop devices and hot-plugged disks, so a number alone does not identify a device.
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
    /// The file behind it, for a loop device of this host. The host finds the device again by this file.
    pub(crate) backing: Option<Identity>,
}

/// An opened block device. A loop device of this host is detached when its last user closes it (`LO_FLAGS_AUTOCLEAR`), until `keep` is called.
#[derive(Debug)]
pub(crate) struct BlockDevice {
    pub(crate) file: OwnedFd,
    pub(crate) number: DeviceNumber,
    /// Path in `/dev`, for the kernel and for tools. The caller verifies afterwards that the path led to `number`.
    pub(crate) path: PathBuf,
    pub(crate) backing: Option<Identity>,
    /// The device that is encrypted, if this is its map.
    pub(crate) storage: Option<BlockRecord>,
    /// The device itself refuses writes.
    pub(crate) is_read_only: bool,
}

impl DeviceNumber {
    /// Converts a `dev_t`.
    pub(crate) fn of_raw(raw: Dev) -> Self {
        Self {
            major: rustix::fs::major(raw),
            minor: rustix::fs::minor(raw),
        }
    }

    /// The number of a block device, from the status of its node. `None`: it is not the node of a block device.
    pub(crate) fn of_node(status: &Stat) -> Option<Self> {
        let is_block = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
        is_block.then(|| Self::of_raw(status.st_rdev))
    }

    /// The number of the file system that a file is on.
    pub(crate) fn of_file_system(file: Identity) -> Self {
        Self {
            major: file.device_major,
            minor: file.device_minor,
        }
    }

    /// Parses the form of sysfs: `8:0`, with or without a newline.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim_end().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    /// The kernel's name of the device: that of its directory in `class/block`. `None`: there is no such device.
    pub(crate) fn name(self, sys: &Path) -> Option<String> {
        let link = std::fs::read_link(sys.join("dev/block").join(self.to_string())).ok()?;
        link.file_name()?.to_str().map(str::to_owned)
    }

    /// Size of the device as the kernel lists it. Nothing is opened, so a device that hangs does not block the caller.
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

/// Its name in messages.
impl fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.path.display())
    }
}

impl BlockDevice {
    /// The record of the device for the journal; of a map it is that of the device below.
    pub(crate) fn record(&self) -> BlockRecord {
        self.storage.unwrap_or(BlockRecord {
            number: self.number,
            backing: self.backing,
        })
    }

    /// Whether it is a loop device of this host.
    pub(crate) fn is_loop(&self) -> bool {
        self.backing.is_some() && self.storage.is_none()
    }

    /// The device of a record. `None`: the device is gone, or its number now belongs to another device.
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

    /// Identity of its node in `/dev`: a mount of the node shows this identity.
    pub(crate) fn node(&self) -> Result<Identity, MountError> {
        identity(&self.file, self.path.display())
    }

    /// Reads a range. The result is shorter only at the end of the device. Data that cannot be read is an error and does not count as blank.
    pub(crate) fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, MountError> {
        let mut bytes = vec![0; length];
        let filled =
            read_at(&self.file, &mut bytes, offset).map_err(|errno| kernel("read", self, errno))?;
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// The current size of the device.
    pub(crate) fn size_bytes(&self) -> Result<u64, MountError> {
        self.number.size_bytes()
    }
}

/// The flag to open a device or a file with.
pub(crate) fn access(read_only: bool) -> OFlags {
    match read_only {
        true => OFlags::RDONLY,
        false => OFlags::RDWR,
    }
}

/// Fills a buffer from a file or device. Returns how many bytes were read, fewer only at its end.
pub(crate) fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match pread(file, rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// Opens the same file or device again, wherever its path leads by now.
pub(crate) fn reopen(file: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

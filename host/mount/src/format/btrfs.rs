//! btrfs: it replays its own log at mount and can be grown while mounted; there is no check that may run by itself (btrfs-check(8): `--repair`
//! is for developers).

use super::{le64, tool_call, unusable};
use crate::block::BlockDevice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use wasmount_core::mounter::MountError;

/// Where the first superblock lies, in bytes.
const SUPERBLOCK: usize = 64 << 10;
/// Its size.
const SUPERBLOCK_BYTES: usize = 4096;
/// Where the magic number lies in it, and which it is.
const MAGIC_AT: usize = 0x40;
const MAGIC: u64 = u64::from_le_bytes(*b"_BHRfS_M");
/// What is there instead while `mkfs.btrfs` works (`BTRFS_MAGIC_TEMPORARY`).
const UNFINISHED_MAGIC: u64 = u64::from_le_bytes(*b"!BHRfS_M");
/// Sizes are multiples of this, in bytes: the sector size of `mkfs.btrfs`.
const SECTOR_BYTES: u64 = 4096;
/// Least size to which the kernel resizes a btrfs (`btrfs_ioctl_resize`, `SZ_256M`), though it makes smaller ones.
const LEAST_RESIZED_BYTES: u64 = 256 << 20;
/// How long a call of the tool may take. 5 minutes: growing writes one transaction, behind all that was written before.
const TOOL_WITHIN: Duration = Duration::from_mins(5);

/// What the superblock says, as far as it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Superblock {
    /// 0: there is no log to be replayed.
    log_root: u64,
    total_bytes: u64,
    devices: u64,
}

/// Whether these first bytes of a device have the magic number.
pub(super) fn has_magic(first: &[u8]) -> bool {
    le64(first, SUPERBLOCK + MAGIC_AT) == Some(MAGIC)
}

/// Whether a `mkfs.btrfs` has begun on it and not ended.
pub(super) fn is_being_made(device: &BlockDevice) -> Result<bool, MountError> {
    let bytes = device.read_at(SUPERBLOCK as u64, SUPERBLOCK_BYTES)?;
    Ok(le64(&bytes, MAGIC_AT) == Some(UNFINISHED_MAGIC))
}

/// Whether there is no log to be replayed.
pub(super) fn is_clean(device: &BlockDevice) -> Result<bool, MountError> {
    Ok(superblock(device)?.log_root == 0)
}

/// To be called before a mount.
pub(super) fn prepare(device: &BlockDevice) -> Result<(), MountError> {
    // A file system over several devices takes the others from wherever the kernel has seen them: not from what was granted.
    let count = superblock(device)?.devices;
    if count != 1 {
        return Err(unusable(
            device,
            format!(
                "the btrfs on it says that it has {count} devices, and a volume has one; take the others out of it (`btrfs device remove`)"
            ),
        ));
    }
    // The kernel remembers which file system over several devices a device of this number was part of. It takes a copy of a mounted file
    // system for that one, and then fails to mount it (Linux 6.18, tried here). Nothing to forget is an error to the tool, and fine.
    let tool = tool_call(
        "btrfs",
        &["device", "scan", "--forget"],
        &device.path,
        TOOL_WITHIN,
    );
    tool.run().map(drop)
}

/// Whether the kernel would grow it to its device at all.
pub(super) fn can_grow(device: &BlockDevice) -> Result<bool, MountError> {
    Ok(device.size_bytes()? >= LEAST_RESIZED_BYTES)
}

/// Grows it to its device, while it is mounted.
pub(super) fn grow(device: &BlockDevice, root: &OwnedFd) -> Result<(), MountError> {
    let size = device.size_bytes()?;
    if size - size % SECTOR_BYTES <= superblock(device)?.total_bytes {
        return Ok(());
    }
    if size < LEAST_RESIZED_BYTES {
        return Err(unusable(
            device,
            format!(
                "the kernel grows a btrfs to {LEAST_RESIZED_BYTES} bytes or more, and the device has {size}; ask for a larger volume"
            ),
        ));
    }
    // Nobody else can see the mount, but through our descriptor of it.
    let path = format!("/proc/{}/fd/{}", std::process::id(), root.as_raw_fd());
    let mut tool = tool_call(
        "btrfs",
        &["filesystem", "resize", "max"],
        Path::new(&path),
        TOOL_WITHIN,
    );
    tool.object = device.path.display().to_string();
    let output = tool.run()?;
    match output.status {
        0 => Ok(()),
        _ => Err(tool.failed(&output)),
    }
}

fn superblock(device: &BlockDevice) -> Result<Superblock, MountError> {
    let bytes = device.read_at(SUPERBLOCK as u64, SUPERBLOCK_BYTES)?;
    parse(&bytes).ok_or_else(|| unusable(device, "there is no btrfs on it any more"))
}

fn parse(bytes: &[u8]) -> Option<Superblock> {
    if le64(bytes, MAGIC_AT)? != MAGIC {
        return None;
    }
    Some(Superblock {
        log_root: le64(bytes, 0x60)?,
        total_bytes: le64(bytes, 0x70)?,
        devices: le64(bytes, 0x88)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_superblock_is_not_read_as_one() {
        assert_eq!(parse(&[0; SUPERBLOCK_BYTES]), None);
        assert_eq!(parse(b"_BHRfS_M"), None);
        assert!(!has_magic(&[0; SUPERBLOCK + SUPERBLOCK_BYTES]) && !has_magic(&[]));
    }
}

//! btrfs: it replays its log at mount and can be expanded while mounted. No check may run automatically (btrfs-check(8): `--repair` is for
//! developers).

use super::le64;
use crate::block::BlockDevice;
use crate::tools::{ToolOutput, tool_call};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use wasmount_core::mounter::MountError;

/// Offset of the first superblock, in bytes.
const SUPERBLOCK: usize = 64 << 10;
/// Its size, in bytes.
const SUPERBLOCK_BYTES: usize = 4096;
/// Offset of the magic number in the superblock, and its value.
const MAGIC_AT: usize = 0x40;
const MAGIC: u64 = u64::from_le_bytes(*b"_BHRfS_M");
/// The magic number while `mkfs.btrfs` works (`BTRFS_MAGIC_TEMPORARY`).
const UNFINISHED_MAGIC: u64 = u64::from_le_bytes(*b"!BHRfS_M");
/// Sizes are multiples of this, in bytes: the sector size of `mkfs.btrfs`.
const SECTOR_BYTES: u64 = 4096;
/// Smallest size to which the kernel resizes a btrfs (`btrfs_ioctl_resize`, `SZ_256M`), though smaller ones can be made.
const LEAST_RESIZED_BYTES: u64 = 256 << 20;
/// Deadline of a call of the tool. 5 minutes: expansion writes one transaction, after all earlier writes.
const TOOL_WITHIN: Duration = Duration::from_mins(5);

/// The fields of the superblock that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Superblock {
    /// 0: there is no log to replay.
    log_root: u64,
    total_bytes: u64,
    devices: u64,
}

/// Whether these first bytes of a device contain the magic number.
pub(super) fn has_magic(first: &[u8]) -> bool {
    le64(first, SUPERBLOCK + MAGIC_AT) == Some(MAGIC)
}

/// Whether a `mkfs.btrfs` started on the device and did not finish.
pub(super) fn is_being_made(device: &BlockDevice) -> Result<bool, MountError> {
    let bytes = device.read_at(SUPERBLOCK as u64, SUPERBLOCK_BYTES)?;
    Ok(le64(&bytes, MAGIC_AT) == Some(UNFINISHED_MAGIC))
}

/// Whether a `mkfs.btrfs` ended before it wrote anything, because another loop device was detached while it compared its device with all mounted ones
/// (`check_mounted` of btrfs-progs 6.2: the device of the mount table no longer has a backing file, ENXIO). The next run has another mount table.
pub(super) fn check_met_a_detach(output: &ToolOutput) -> bool {
    output.status != 0
        && output.stderr.contains("cannot check mount status of")
        && output.stderr.contains("No such device or address")
}

/// Whether there is no log to replay.
pub(super) fn is_clean(device: &BlockDevice) -> Result<bool, MountError> {
    Ok(superblock(device)?.log_root == 0)
}

/// Must be called before a mount.
pub(super) fn prepare(device: &BlockDevice) -> Result<(), MountError> {
    // A file system over several devices uses every device that the kernel has seen, whether or not it was granted.
    let count = superblock(device)?.devices;
    if count != 1 {
        return Err(MountError::unusable(
            device,
            format!(
                "the btrfs on it says that it has {count} devices, and a volume has one; remove the others from it (`btrfs device remove`)"
            ),
        ));
    }
    // The kernel remembers the file system over several devices to which a device with this number belonged. It takes a copy of a mounted file system
    // for that one, and then fails to mount it (tested with Linux 6.18). The tool reports an error if there is nothing to forget; that is harmless.
    let tool = tool_call(
        "btrfs",
        &["device", "scan", "--forget"],
        &device.path,
        TOOL_WITHIN,
    );
    tool.run().map(drop)
}

/// Whether the kernel can expand it to the size of its device at all.
pub(super) fn can_grow(device: &BlockDevice) -> Result<bool, MountError> {
    Ok(device.size_bytes()? >= LEAST_RESIZED_BYTES)
}

/// Expands it to the size of its device, while it is mounted.
pub(super) fn grow(device: &BlockDevice, root: &OwnedFd) -> Result<(), MountError> {
    let size = device.size_bytes()?;
    if size - size % SECTOR_BYTES <= superblock(device)?.total_bytes {
        return Ok(());
    }
    if size < LEAST_RESIZED_BYTES {
        return Err(MountError::unusable(
            device,
            format!(
                "the kernel grows a btrfs to {LEAST_RESIZED_BYTES} bytes or more, and the device has {size}; request a larger volume"
            ),
        ));
    }
    // The mount is detached, so it is visible only through our descriptor.
    let path = format!("/proc/{}/fd/{}", std::process::id(), root.as_raw_fd());
    let mut tool = tool_call(
        "btrfs",
        &["filesystem", "resize", "max"],
        Path::new(&path),
        TOOL_WITHIN,
    );
    tool.object = device.path.display().to_string();
    tool.succeeded(&tool.run()?)
}

fn superblock(device: &BlockDevice) -> Result<Superblock, MountError> {
    let bytes = device.read_at(SUPERBLOCK as u64, SUPERBLOCK_BYTES)?;
    parse(&bytes).ok_or_else(|| MountError::unusable(device, "there is no btrfs on it any more"))
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

    fn output(status: i32, stderr: &str) -> ToolOutput {
        ToolOutput {
            status,
            stdout: Vec::new(),
            stderr: stderr.to_owned(),
        }
    }

    #[test]
    fn a_check_that_met_a_detach_is_recognised() {
        let text = "ERROR: cannot check mount status of /dev/loop3: No such device or address\n";
        assert!(check_met_a_detach(&output(1, text)));
    }

    #[test]
    fn other_failures_of_mkfs_are_not_repeated() {
        for (status, text) in [
            (1, "ERROR: /dev/loop3 is mounted\n"),
            (
                1,
                "ERROR: cannot check mount status of /dev/loop3: Input/output error\n",
            ),
            (
                1,
                "ERROR: unable to open /dev/loop3: No such device or address\n",
            ),
            (
                0,
                "cannot check mount status of /dev/loop3: No such device or address\n",
            ),
        ] {
            assert!(
                !check_met_a_detach(&output(status, text)),
                "{status}: {text}"
            );
        }
    }
}

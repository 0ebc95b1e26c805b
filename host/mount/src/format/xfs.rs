//! xfs: the kernel replays its journal at mount, and a mounted xfs can be expanded with the right to mount. There is no check to run: `fsck.xfs` does
//! nothing by design, and the mount detects a damaged superblock.

use super::array;
use crate::block::BlockDevice;
use crate::failure::kernel;
use crate::tools::tool_call;
use rustix::fs::{Mode, OFlags, openat};
use std::os::fd::OwnedFd;
use std::time::Duration;
use uuid::Uuid;
use wasmount_core::mounter::MountError;
use wasmount_sys::xfs::{geometry, grow as grow_data};

/// The first bytes of a device.
const MAGIC: &[u8] = b"XFSB";
/// Offset of `sb_uuid`, in bytes.
const UUID: usize = 32;
/// Offset of `sb_inprogress`, in bytes. It is not 0 until `mkfs.xfs` is done, and the kernel does not mount the file system before.
const IN_PROGRESS: usize = 126;
/// The smallest sector, and more than is read of the superblock.
const SUPERBLOCK_BYTES: usize = 512;
/// Deadline of reading the journal. 5 minutes: a journal has 2 GiB at most, and all of it may be read.
const LOG_WITHIN: Duration = Duration::from_mins(5);
/// Position at which the journal begins and ends after `mkfs.xfs`, which writes one record: that the file system was unmounted.
const AFTER_MKFS: u64 = 2;

/// Whether these first bytes of a device contain the magic number.
pub(super) fn has_magic(first: &[u8]) -> bool {
    first.starts_with(MAGIC)
}

/// Whether the journal is empty.
pub(super) fn is_clean(device: &BlockDevice) -> Result<bool, MountError> {
    let tool = tool_call("xfs_logprint", &["-t"], &device.path, LOG_WITHIN);
    let output = tool.run()?;
    parse_log(&String::from_utf8_lossy(&output.stdout))
        .map(|(_, is_clean)| is_clean)
        .ok_or_else(|| tool.failed(&output))
}

/// Whether the file system has this UUID and cannot have been mounted for writing since `mkfs.xfs` started. If the journal cannot be read, the answer
/// is no.
pub(super) fn was_never_mounted(device: &BlockDevice, uuid: Uuid) -> Result<bool, MountError> {
    let first = device.read_at(0, SUPERBLOCK_BYTES)?;
    if array(&first, UUID).map(Uuid::from_bytes) != Some(uuid) {
        return Ok(false);
    }
    if first.get(IN_PROGRESS).is_some_and(|flag| *flag != 0) {
        return Ok(true);
    }
    let tool = tool_call("xfs_logprint", &["-t"], &device.path, LOG_WITHIN);
    let output = tool.run()?;
    Ok(parse_log(&String::from_utf8_lossy(&output.stdout)) == Some((AFTER_MKFS, true)))
}

/// Expands it to the size of its device, while it is mounted. The kernel does not use a remainder that is too small for a group.
pub(super) fn grow(device: &BlockDevice, root: &OwnedFd) -> Result<(), MountError> {
    let failed = |operation: &str, errno| kernel(operation, device, errno);
    // The descriptor of a mount is opened with `O_PATH`; the ioctl requires an opened file.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(root, c".", flags, Mode::empty()).map_err(|errno| failed("open", errno))?;
    let found = geometry(&opened).map_err(|errno| failed("XFS_IOC_FSGEOMETRY", errno))?;
    let blocks = device
        .size_bytes()?
        .checked_div(found.block_bytes.into())
        .unwrap_or_default();
    if blocks <= found.data_blocks {
        return Ok(());
    }
    grow_data(&opened, blocks).map_err(|errno| failed("XFS_IOC_FSGROWFSDATA", errno))
}

/// The start of the journal, and whether it is empty, from the line `log tail: 2 head: 2 state: <CLEAN>`.
fn parse_log(text: &str) -> Option<(u64, bool)> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("log tail: "))?;
    let (_, rest) = line.split_once(" head: ")?;
    let (head, state) = rest.split_once(" state: ")?;
    Some((head.parse().ok()?, state == "<CLEAN>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_the_journal_is_read_from_its_line() {
        let text = |state: &str| {
            format!(
                "xfs_logprint:\n    data device: 0x700\n\n    log tail: 2 head: 37 state: <{state}>\n\n"
            )
        };
        assert_eq!(parse_log(&text("CLEAN")), Some((37, true)));
        assert_eq!(parse_log(&text("DIRTY")), Some((37, false)));
    }

    #[test]
    fn output_without_that_line_is_none() {
        for text in [
            "",
            "xfs_logprint: unknown log format",
            "log tail: 2 head: x state: <CLEAN>",
        ] {
            assert_eq!(parse_log(text), None, "{text:?}");
        }
    }
}

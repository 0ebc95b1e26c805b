//! ext4: checked before every use and expanded before it is mounted, since the kernel requires CAP_SYS_RESOURCE to expand a mounted one. The
//! superblock is described in `Documentation/filesystems/ext4/super.rst`.

use super::{FsType, array, le16, le32};
use crate::block::BlockDevice;
use crate::tools::{ToolOutput, tool_call};
use std::time::Duration;
use uuid::Uuid;
use wasmount_core::mounter::MountError;

/// Offset of the superblock, in bytes.
const SUPERBLOCK: u64 = 1024;
/// Its size, in bytes.
const SUPERBLOCK_BYTES: usize = 1024;
/// `s_magic`.
const MAGIC: u16 = 0xef53;
/// Block sizes from which `mkfs.ext4` chooses, in bytes.
const BLOCKS: [u64; 3] = [1024, 2048, 4096];
/// `INCOMPAT_RECOVER` in `s_feature_incompat`: the journal is not empty.
const NEEDS_RECOVERY: u32 = 0x4;
/// `INCOMPAT_64BIT`: sizes have upper halves.
const IS_64_BIT: u32 = 0x80;
/// The smallest group that `resize2fs` makes, without its tables, in blocks (`adjust_fs_info`).
const LEAST_GROUP: u64 = 50;
/// Each group has two bitmaps.
const BITMAPS: u64 = 2;
/// `resize2fs` works in whole pages of memory, in bytes.
const PAGE_BYTES: u64 = 4096;
/// Deadline of a check or an expansion. 6 hours: a full check of some TB of small files on slow disks. Killing it half-way gains nothing.
const CHECK_WITHIN: Duration = Duration::from_hours(6);
/// `e2fsck` exits with a sum of these bits. Sums below 4 mean that the file system is in order.
const UNCORRECTED: i32 = 4;
/// From this value on, `e2fsck` could not run at all.
const OPERATIONAL: i32 = 8;

/// The fields of the superblock that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Superblock {
    block_bytes: u64,
    blocks: u64,
    first_block: u64,
    blocks_per_group: u64,
    inode_blocks_per_group: u64,
    needs_recovery: bool,
    /// Seconds; 0: never.
    mounted_at: u32,
    /// Number of mounts since the last check.
    mounts: u16,
    uuid: Uuid,
}

/// Whether these first bytes of a device contain the magic number.
pub(super) fn has_magic(first: &[u8]) -> bool {
    first
        .get(SUPERBLOCK as usize..)
        .is_some_and(|superblock| le16(superblock, 0x38) == Some(MAGIC))
}

/// Whether the journal is empty.
pub(super) fn is_clean(device: &BlockDevice) -> Result<bool, MountError> {
    Ok(!superblock(device)?.needs_recovery)
}

/// Whether the file system has this UUID and was never mounted for writing since it was made. The checksum may be wrong: a single torn byte does not
/// change either of the two.
pub(super) fn was_never_mounted(device: &BlockDevice, uuid: Uuid) -> Result<bool, MountError> {
    let found = parse(&device.read_at(SUPERBLOCK, SUPERBLOCK_BYTES)?);
    Ok(found.is_some_and(|it| it.uuid == uuid && it.mounted_at == 0 && it.mounts == 0))
}

/// Whether the device contains no copy of another ext4, when the superblock is missing. An ext4 has a copy of its superblock at the start of its
/// second group, and a group has as many blocks as a block has bits.
pub(super) fn has_no_copy_of_another(device: &BlockDevice, uuid: Uuid) -> Result<bool, MountError> {
    for block in BLOCKS {
        let first_block = u64::from(block == SUPERBLOCK);
        let copy = (8 * block + first_block) * block;
        let found = parse(&device.read_at(copy, SUPERBLOCK_BYTES)?);
        if found.is_some_and(|it| it.uuid != uuid) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Repairs what can be repaired automatically, and expands the file system to the size of its device. It must not be mounted.
pub(super) fn check_and_grow(device: &BlockDevice) -> Result<(), MountError> {
    // `resize2fs` requires a full check first.
    let grows = can_grow(&superblock(device)?, device.size_bytes()?);
    check(device, if grows { &["-f", "-p"] } else { &["-p"] })?;
    if grows { grow(device) } else { Ok(()) }
}

/// Expands it to the size of its device. If it is mounted, then at a path that this host's mount table shows.
pub(super) fn grow(device: &BlockDevice) -> Result<(), MountError> {
    if !can_grow(&superblock(device)?, device.size_bytes()?) {
        return Ok(());
    }
    let tool = tool_call("resize2fs", &[], &device.path, CHECK_WITHIN);
    let output = tool.run()?;
    match output.status {
        0 => Ok(()),
        _ if is_forbidden(&output) => Err(MountError::unusable(
            device,
            "the kernel lets only a holder of CAP_SYS_RESOURCE grow a mounted ext4, and this host is none; the file system grows when the volume is staged next",
        )),
        _ => Err(tool.failed(&output)),
    }
}

fn check(device: &BlockDevice, arguments: &[&str]) -> Result<(), MountError> {
    let tool = tool_call("e2fsck", arguments, &device.path, CHECK_WITHIN);
    let output = tool.run()?;
    let repair = FsType::Ext4.repair();
    match output.status {
        status if status < UNCORRECTED => Ok(()),
        status if status < OPERATIONAL => {
            let fault = "`e2fsck -p` refuses to repair it automatically";
            Err(MountError::damaged(
                device,
                format!("{fault}; {repair}; {}", output.excerpt()),
            ))
        }
        _ if is_torn(&output) => {
            let fault = "the checksum of its superblock is wrong";
            Err(MountError::damaged(device, format!("{fault}; {repair}")))
        }
        _ => Err(tool.failed(&output)),
    }
}

/// Whether `e2fsck` could not start because of the superblock's checksum (message of libext2fs for `EXT2_ET_SB_CSUM_INVALID`).
fn is_torn(output: &ToolOutput) -> bool {
    output
        .stderr
        .contains("Superblock checksum does not match superblock")
}

/// Whether the kernel rejected the request of `resize2fs` (its message for `EPERM`).
fn is_forbidden(output: &ToolOutput) -> bool {
    output.stderr.contains("Permission denied to resize")
        || output.stderr.contains("Operation not permitted")
}

/// Whether `resize2fs` would expand the file system: it does not add a last group that would hold little more than its own tables.
fn can_grow(superblock: &Superblock, device_bytes: u64) -> bool {
    let pages = device_bytes - device_bytes % PAGE_BYTES.max(superblock.block_bytes);
    let blocks = pages / superblock.block_bytes;
    let last_group = blocks
        .saturating_sub(superblock.first_block)
        .checked_rem(superblock.blocks_per_group)
        .unwrap_or_default();
    let least = BITMAPS + superblock.inode_blocks_per_group + LEAST_GROUP;
    let usable = if last_group < least {
        blocks - last_group
    } else {
        blocks
    };
    usable > superblock.blocks
}

fn superblock(device: &BlockDevice) -> Result<Superblock, MountError> {
    let bytes = device.read_at(SUPERBLOCK, SUPERBLOCK_BYTES)?;
    let repair = FsType::Ext4.repair();
    parse(&bytes).ok_or_else(|| {
        MountError::damaged(device, format!("its superblock is not valid; {repair}"))
    })
}

fn parse(bytes: &[u8]) -> Option<Superblock> {
    if le16(bytes, 0x38)? != MAGIC {
        return None;
    }
    let block_bytes = 1024_u64.checked_shl(le32(bytes, 0x18)?)?;
    // The kernel accepts block sizes from 1 KiB to 64 KiB.
    if !(1024..=65536).contains(&block_bytes) {
        return None;
    }
    let incompatible = le32(bytes, 0x60)?;
    let upper = match incompatible & IS_64_BIT {
        0 => 0,
        _ => le32(bytes, 0x150)?,
    };
    let inode_bytes = u64::from(le32(bytes, 0x28)?) * u64::from(le16(bytes, 0x58)?);
    Some(Superblock {
        block_bytes,
        blocks: u64::from(upper) << 32 | u64::from(le32(bytes, 0x4)?),
        first_block: le32(bytes, 0x14)?.into(),
        blocks_per_group: le32(bytes, 0x20)?.into(),
        inode_blocks_per_group: inode_bytes.div_ceil(block_bytes),
        needs_recovery: incompatible & NEEDS_RECOVERY != 0,
        mounted_at: le32(bytes, 0x2c)?,
        mounts: le16(bytes, 0x34)?,
        uuid: Uuid::from_bytes(array(bytes, 0x68)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn of_mib(mib: u64) -> Superblock {
        Superblock {
            block_bytes: 4096,
            blocks: mib * MIB / 4096,
            first_block: 0,
            blocks_per_group: 32768,
            inode_blocks_per_group: 512,
            needs_recovery: false,
            mounted_at: 0,
            mounts: 0,
            uuid: Uuid::from_bytes([0; 16]),
        }
    }

    #[test]
    fn it_grows_when_the_device_is_larger_by_what_resize2fs_takes() {
        for (mib, device, expected) in [
            (512, 512 * MIB, false),
            (512, 512 * MIB + 4096, false),
            // A new group needs 564 blocks.
            (512, 512 * MIB + 563 * 4096, false),
            (512, 512 * MIB + 564 * 4096, true),
            (512, 640 * MIB, true),
            // An expansion within the last group needs no new tables.
            (520, 520 * MIB + 4096, true),
            (520, 520 * MIB + 4095, false),
            (512, 511 * MIB, false),
        ] {
            assert_eq!(can_grow(&of_mib(mib), device), expected, "{mib} {device}");
        }
    }

    #[test]
    fn what_is_no_superblock_is_not_read_as_one() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[0; 1024]), None);
        let mut bytes = [0xff; 1024];
        bytes[0x38] = 0x53;
        bytes[0x39] = 0xef;
        assert_eq!(parse(&bytes), None);
        assert!(!has_magic(&[0xff; 2048]) && !has_magic(&[]));
    }
}

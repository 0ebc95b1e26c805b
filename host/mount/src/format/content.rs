//! Detects the content of a device without mounting it: a signature that `blkid` knows, other bytes, or nothing.
//!
//! `blkid` alone must not decide that a device is blank. It reports "nothing found" for a device that it cannot read, and for an xfs with one flipped
//! bit in its superblock, since it verifies the checksum (tested with libblkid 2.38). Kubernetes' own SafeFormatAndMount formats both. So if `blkid`
//! finds nothing, the places where file systems and partition tables keep their metadata are read too.

use super::{FsType, btrfs, ext4, xfs};
use crate::block::BlockDevice;
use crate::failure::shown;
use crate::tools::{ToolCall, ToolOutput, tool_call};
use std::time::Duration;
use wasmount_core::mounter::MountError;

/// Deadline of a probe. 20 s: it reads some hundred KiB, which takes milliseconds. If a disk fails over meanwhile, the client's next attempt finds
/// it.
const PROBE_WITHIN: Duration = Duration::from_secs(20);
/// How many bytes are read at both ends. 1 MiB: it covers all superblocks, partition tables and RAID labels at either end, and partitions begin after
/// it.
const END_BYTES: u64 = 1 << 20;
/// Offset of the second superblock of btrfs, in bytes: its first MiB may be zero except for the first superblock.
const BTRFS_MIRROR: u64 = 64 << 20;
/// The size of a btrfs superblock.
const BTRFS_MIRROR_BYTES: u64 = 4096;
/// Exit status: `blkid -p` found nothing, or could not read the device (blkid(8)).
const NOTHING: i32 = 2;
/// Exit status: `blkid -p` found signatures that exclude each other.
const AMBIVALENT: i32 = 8;

/// The content of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// No signature, and only zeros where a signature could be.
    Blank,
    /// No known signature, but non-zero bytes, the first at this offset.
    Unsigned { at: u64 },
    /// The magic number of a supported file system, with an invalid superblock.
    Broken(FsType),
    /// A supported file system.
    Filesystem(FsType),
    /// A partition table, a volume manager's label or another file system, by the name that `blkid` gives it.
    Foreign(String),
    /// Several signatures that exclude each other.
    Ambivalent,
}

/// A file system by its own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) label: String,
    /// As the kernel and `blkid` name it.
    pub(crate) fs_type: String,
}

/// Probes the device.
pub(crate) fn probe(device: &BlockDevice) -> Result<Content, MountError> {
    let tool = blkid(device);
    let output = tool.run()?;
    match parse(&output) {
        Some(Content::Blank) => unsigned(device),
        Some(content) => Ok(content),
        None => Err(tool.failed(&output)),
    }
}

/// The label of the file system on the device. `None`: it has no file system, or one without a label.
pub(crate) fn label(device: &BlockDevice) -> Result<Option<Label>, MountError> {
    let tool = blkid(device);
    let output = tool.run()?;
    match output.status {
        0 => Ok(parse_label(&String::from_utf8_lossy(&output.stdout))),
        NOTHING | AMBIVALENT => Ok(None),
        _ => Err(tool.failed(&output)),
    }
}

/// A probe without `blkid`'s cache, which may be older than the device.
fn blkid(device: &BlockDevice) -> ToolCall {
    tool_call("blkid", &["-p", "-o", "export"], &device.path, PROBE_WITHIN)
}

fn parse_label(text: &str) -> Option<Label> {
    Some(Label {
        label: value(text, "LABEL")?.to_owned(),
        fs_type: value(text, "TYPE")?.to_owned(),
    })
}

/// The value of a line of `blkid`'s output.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value)
}

/// Parses the output of `blkid`. `None`: it failed.
fn parse(output: &ToolOutput) -> Option<Content> {
    match output.status {
        0 => {}
        NOTHING => return Some(Content::Blank),
        AMBIVALENT => return Some(Content::Ambivalent),
        _ => return None,
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |name| value(&text, name);
    // `blkid` prints values for an empty partition too: those that describe its location (`PART_ENTRY_..`).
    if let Some(table) = value("PTTYPE") {
        return Some(Content::Foreign(format!(
            "a partition table ({})",
            shown(table)
        )));
    }
    match value("TYPE").or_else(|| value("USAGE")) {
        None => Some(Content::Blank),
        Some(name) => Some(match FsType::parse(name) {
            Some(fs_type) => Content::Filesystem(fs_type),
            None => Content::Foreign(shown(name)),
        }),
    }
}

/// Reads the content of a device without a signature.
fn unsigned(device: &BlockDevice) -> Result<Content, MountError> {
    let size = device.size_bytes()?;
    if size == 0 {
        return Err(MountError::unusable(
            device,
            "its size is 0; its backing storage is gone",
        ));
    }
    let end = usize::try_from(END_BYTES.min(size)).unwrap_or_default();
    let first = device.read_at(0, end)?;
    let has_magic = |fs_type: &FsType| match fs_type {
        FsType::Ext4 => ext4::has_magic(&first),
        FsType::Xfs => xfs::has_magic(&first),
        FsType::Btrfs => btrfs::has_magic(&first),
    };
    if let Some(fs_type) = FsType::ALL.into_iter().find(has_magic) {
        return Ok(Content::Broken(fs_type));
    }
    Ok(match first_used(device, 0)? {
        Some(at) => Content::Unsigned { at },
        None => Content::Blank,
    })
}

/// Where file systems, partition tables and volume managers keep what identifies them, in a device of this size: offsets and lengths in bytes.
pub(crate) fn blank_places(size_bytes: u64) -> [(u64, usize); 3] {
    let within = |offset: u64, length: u64| {
        let length = length.min(size_bytes.saturating_sub(offset));
        (offset, usize::try_from(length).unwrap_or_default())
    };
    [
        within(0, END_BYTES),
        within(BTRFS_MIRROR, BTRFS_MIRROR_BYTES),
        within(size_bytes.saturating_sub(END_BYTES), END_BYTES),
    ]
}

/// Whether there are only zeros in those of these places that begin behind an offset.
pub(crate) fn is_blank_from(device: &BlockDevice, offset: u64) -> Result<bool, MountError> {
    Ok(first_used(device, offset)?.is_none())
}

/// The first byte in these places that is not zero.
fn first_used(device: &BlockDevice, from: u64) -> Result<Option<u64>, MountError> {
    for (offset, length) in blank_places(device.size_bytes()?) {
        if offset < from {
            continue;
        }
        let bytes = device.read_at(offset, length)?;
        if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
            return Ok(Some(offset + at as u64));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(status: i32, stdout: &str) -> ToolOutput {
        ToolOutput {
            status,
            stdout: stdout.as_bytes().to_vec(),
            stderr: String::new(),
        }
    }

    #[test]
    fn the_output_of_blkid_is_parsed() {
        let foreign = |name: &str| Some(Content::Foreign(name.to_owned()));
        for (status, text, expected) in [
            (2, "", Some(Content::Blank)),
            (8, "", Some(Content::Ambivalent)),
            (4, "", None),
            (1, "TYPE=ext4", None),
            (
                0,
                "DEVNAME=/dev/x\nUUID=1\nTYPE=ext4\n",
                Some(Content::Filesystem(FsType::Ext4)),
            ),
            (0, "TYPE=xfs\n", Some(Content::Filesystem(FsType::Xfs))),
            (0, "TYPE=btrfs\n", Some(Content::Filesystem(FsType::Btrfs))),
            (0, "TYPE=ext3\n", foreign("ext3")),
            (
                0,
                "LABEL=x\nTYPE=LVM2_member\nUSAGE=raid\n",
                foreign("LVM2_member"),
            ),
            (0, "USAGE=crypto\n", foreign("crypto")),
            (
                0,
                "PTUUID=1\nPTTYPE=gpt\n",
                foreign("a partition table (gpt)"),
            ),
            (
                0,
                "TYPE=xfs\nPTTYPE=dos\n",
                foreign("a partition table (dos)"),
            ),
            // An empty partition.
            (
                0,
                "DEVNAME=/dev/x1\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_TYPE=1\n",
                Some(Content::Blank),
            ),
            (0, "", Some(Content::Blank)),
        ] {
            assert_eq!(parse(&output(status, text)), expected, "{status} {text:?}");
        }
    }

    #[test]
    fn a_label_is_read_with_its_file_system() {
        let read = |text| parse_label(text).map(|it| (it.label, it.fs_type));
        let both = |label: &str, fs_type: &str| Some((label.to_owned(), fs_type.to_owned()));
        let iso =
            "DEVNAME=/dev/sr0\nBLOCK_SIZE=2048\nLABEL=config-2\nTYPE=iso9660\nUSAGE=filesystem\n";
        assert_eq!(read(iso), both("config-2", "iso9660"));
        let fat = "LABEL_FATBOOT=config-2\nLABEL=CONFIG-2\nUUID=1\nSEC_TYPE=msdos\nTYPE=vfat\n";
        assert_eq!(read(fat), both("CONFIG-2", "vfat"));
        for text in [
            "",
            "TYPE=ext4\n",
            "LABEL=config-2\n",
            "PARTLABEL=config-2\nTYPE=vfat\n",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_label_cannot_pass_for_a_type() {
        // `blkid` escapes line breaks in labels. A key that only has the same prefix does not count either.
        let text = "LABEL=x\\nTYPE=ext4\nSEC_TYPE=ext2\nTYPE=vfat\n";
        assert_eq!(
            parse(&output(0, text)),
            Some(Content::Foreign("vfat".to_owned()))
        );
    }
}

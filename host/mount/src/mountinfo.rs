//! The mount table (`/proc/thread-self/mountinfo`, proc_pid_mountinfo(5)), parsed.
//!
//! Reading it is slow (1.8 ms at a thousand mounts), so it is used only where a check by descriptor is not sufficient: at recovery and at a teardown
//! without a record, where storage that hangs must not be accessed, and to detect whether a path root is shared.

use crate::block::DeviceNumber;
use crate::failure::io;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;

/// The table of the calling thread's mount namespace. (`/proc/self` is that of the main thread, which can differ.)
const TABLE: &str = "/proc/thread-self/mountinfo";
/// Major number of file systems without a block device.
const ANONYMOUS: u32 = 0;
/// Prefix of the types of file systems that a user-space program serves. (`fuseblk` has a disk below all the same.)
const SERVED_BY_PROGRAM: &str = "fuse";
/// File systems of the node without a single block device, in which device nodes may lie: in a container, `/dev` is a `tmpfs`.
const HOLDING_NODES: [&str; 6] = ["devtmpfs", "tmpfs", "ramfs", "overlay", "btrfs", "zfs"];
/// The directory of device nodes.
pub(crate) const DEVICES: &str = "/dev";
/// The type of the file system in that directory.
const DEVICES_TYPE: &str = "devtmpfs";

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountLine {
    /// The number that `statx` reports.
    pub(crate) mount_id: u64,
    /// The number of the parent mount.
    pub(crate) parent_id: u64,
    /// Device number of the file system.
    pub(crate) device: DeviceNumber,
    /// The part of the file system that is shown. It ends in `//deleted` if that was removed.
    pub(crate) root: PathBuf,
    pub(crate) mount_point: PathBuf,
    /// The mount propagates mount events to its peers and receives theirs.
    pub(crate) is_shared: bool,
    /// Type of the file system.
    pub(crate) fs_type: String,
    /// The source as the file system reports it: a device, an export of a server, or a free text.
    pub(crate) source: String,
    /// Options of the file system itself, independent of those of the mount.
    pub(crate) super_options: String,
}

impl MountLine {
    /// Whether device nodes may lie in it: it has a disk below, or is of a type that `/dev` uses. Otherwise a server or a program serves its content
    /// and may never answer.
    pub(crate) fn may_hold_nodes(&self) -> bool {
        let has_disk = self.device.major != ANONYMOUS;
        let is_served = self.fs_type.starts_with(SERVED_BY_PROGRAM);
        (has_disk && !is_served) || HOLDING_NODES.contains(&self.fs_type.as_str())
    }

    /// The block device below. btrfs has a device number of its own, so its source is used.
    pub(crate) fn block_device(&self) -> Option<DeviceNumber> {
        match self.device.major {
            ANONYMOUS => number_of(Path::new(&self.source)),
            _ => Some(self.device),
        }
    }

    /// The block device that is shown, either by a file system on it or as its node.
    pub(crate) fn shown_device(&self) -> Option<DeviceNumber> {
        if self.fs_type != DEVICES_TYPE {
            return self.block_device();
        }
        let node = self.root.strip_prefix("/").ok()?;
        number_of(&Path::new(DEVICES).join(node))
    }
}

/// The mount with this number, as `statx` reports it. `None`: it is in another namespace, or was unmounted.
pub(crate) fn of_mount(mount_id: u64) -> Result<Option<MountLine>, MountError> {
    let table = read()?;
    Ok(table.into_iter().find(|line| line.mount_id == mount_id))
}

/// The mount that contains a path, as this namespace sees it. Of several mounts at one path, the topmost.
pub(crate) fn covering<'t>(table: &'t [MountLine], path: &Path) -> Option<&'t MountLine> {
    table
        .iter()
        .filter(|line| path.starts_with(&line.mount_point))
        .max_by_key(|line| line.mount_point.components().count())
}

/// Reads the table. Invalid lines are skipped: one unusual mount must not hide the others.
pub(crate) fn read() -> Result<Vec<MountLine>, MountError> {
    let table = std::fs::read(TABLE).map_err(|error| io("read", "the mount table", &error))?;
    Ok(parse(&table))
}

/// Parses a table.
pub(crate) fn parse(table: &[u8]) -> Vec<MountLine> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mount_id = text(fields.next()?)?.parse().ok()?;
    let parent_id = text(fields.next()?)?.parse().ok()?;
    let device = DeviceNumber::parse(text(fields.next()?)?)?;
    let root = path(fields.next()?);
    let mount_point = path(fields.next()?);
    let _options = fields.next()?;
    // Any number of optional fields, ended by a single hyphen.
    let mut optional = fields.by_ref().take_while(|field| *field != b"-");
    let is_shared = optional.any(|field| field.starts_with(b"shared:"));
    optional.for_each(drop);
    Some(MountLine {
        mount_id,
        parent_id,
        device,
        root,
        mount_point,
        is_shared,
        fs_type: text(fields.next()?)?.to_owned(),
        source: String::from_utf8_lossy(&unescape(fields.next()?)).into_owned(),
        super_options: String::from_utf8_lossy(fields.next()?).into_owned(),
    })
}

/// Whether this namespace has a mount of a device or of its node.
pub(crate) fn is_shown(device: DeviceNumber) -> Result<bool, MountError> {
    let table = read()?;
    Ok(table.iter().any(|line| line.shown_device() == Some(device)))
}

/// The number of a device, from its node. Only paths that can be device nodes are accessed: another path may lie on storage that hangs.
pub(crate) fn number_of(path: &Path) -> Option<DeviceNumber> {
    if !path.starts_with(DEVICES) {
        return None;
    }
    DeviceNumber::of_node(&rustix::fs::stat(path).ok()?)
}

fn text(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok()
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// Space, tab, line break, backslash and `#` are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.split_first_chunk().filter(|_| *first == b'\\');
        let escaped = escaped.and_then(|(digits, behind)| Some((octal(digits)?, behind)));
        let (byte, behind) = escaped.unwrap_or((*first, after));
        plain.push(byte);
        rest = behind;
    }
    plain
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let mut value: u32 = 0;
    for digit in digits {
        value = value * 8 + char::from(*digit).to_digit(8)?;
    }
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests;

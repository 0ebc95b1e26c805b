//! The mount table (`/proc/thread-self/mountinfo`, proc_pid_mountinfo(5)), parsed.
//!
//! It is slow (1.8 ms at a thousand mounts), so it is used only where one look by descriptor does not do: at recovery and at a teardown
//! without a record, where storage that hangs must not be touched, and to see whether a path root is shared.

use crate::block::DeviceNumber;
use crate::failure::io;
use rustix::fs::FileType;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;

/// The table of the calling thread's mount namespace. (`/proc/self` is the first thread's, which can differ.)
const TABLE: &str = "/proc/thread-self/mountinfo";
/// Major number of file systems that lie on no block device.
const ANONYMOUS: u32 = 0;
/// How their device numbers begin in the table.
const ANONYMOUS_PREFIX: &str = "0:";
/// How the types of file systems that a program serves begin (`fuseblk` has a disk below all the same).
const SERVED_BY_PROGRAM: &str = "fuse";
/// File systems of the node itself without one device below, in which nodes may lie: `/dev` is a `tmpfs` in a container.
const HOLDING_NODES: [&str; 6] = ["devtmpfs", "tmpfs", "ramfs", "overlay", "btrfs", "zfs"];
/// Where the nodes of devices are.
pub(crate) const DEVICES: &str = "/dev";
/// The type of the file system there.
const DEVICES_TYPE: &str = "devtmpfs";

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountLine {
    /// As `statx` tells it.
    pub(crate) mount_id: u64,
    /// Of the mount that it lies on.
    pub(crate) parent_id: u64,
    /// Of the file system: major and minor number with a colon between.
    pub(crate) device: String,
    /// What of the file system is shown. Ends in `//deleted` when that is gone.
    pub(crate) root: PathBuf,
    pub(crate) mount_point: PathBuf,
    /// Mount events travel to others and from them.
    pub(crate) is_shared: bool,
    /// Type of the file system.
    pub(crate) fs_type: String,
    /// What was mounted, as the file system calls it: a device, a server's export, a word.
    pub(crate) source: String,
    /// Options of the file system itself, whatever those of the mount are.
    pub(crate) super_options: String,
}

impl MountLine {
    /// Whether nodes of devices may lie in it: it has a disk below, or is what a `/dev` is made of. Else a server or a program tells what is in
    /// it, and may never answer.
    pub(crate) fn may_hold_nodes(&self) -> bool {
        let has_disk = !self.device.starts_with(ANONYMOUS_PREFIX);
        let is_served = self.fs_type.starts_with(SERVED_BY_PROGRAM);
        (has_disk && !is_served) || HOLDING_NODES.contains(&self.fs_type.as_str())
    }

    /// The block device below. A btrfs has a device number of its own making, so its source tells.
    pub(crate) fn block_device(&self) -> Option<DeviceNumber> {
        let number = DeviceNumber::parse(&self.device)?;
        if number.major != ANONYMOUS {
            return Some(number);
        }
        number_of(Path::new(&self.source))
    }

    /// The block device that is shown: by the file system on it, or as its node.
    pub(crate) fn shown_device(&self) -> Option<DeviceNumber> {
        if self.fs_type != DEVICES_TYPE {
            return self.block_device();
        }
        let node = self.root.strip_prefix("/").ok()?;
        number_of(&Path::new(DEVICES).join(node))
    }
}

/// The mount with this number, as `statx` tells it. `None`: it is in another namespace, or was taken off.
pub(crate) fn of_mount(mount_id: u64) -> Result<Option<MountLine>, MountError> {
    let table = read()?;
    Ok(table.into_iter().find(|line| line.mount_id == mount_id))
}

/// The mount that a path lies in, as far as this namespace sees it. Of several at one place, the topmost.
pub(crate) fn covering<'t>(table: &'t [MountLine], path: &Path) -> Option<&'t MountLine> {
    table
        .iter()
        .filter(|line| path.starts_with(&line.mount_point))
        .max_by_key(|line| line.mount_point.components().count())
}

/// Reads the table. Lines that make no sense are left out: one odd mount must not hide the others.
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
    let mut words = line.split(|byte| *byte == b' ');
    let mount_id = text(words.next()?)?.parse().ok()?;
    let parent_id = text(words.next()?)?.parse().ok()?;
    let device = text(words.next()?)?;
    let root = path(words.next()?);
    let mount_point = path(words.next()?);
    let _options = words.next()?;
    // Any number of optional words, ended by a lone hyphen.
    let mut optional = words.by_ref().take_while(|word| *word != b"-");
    let is_shared = optional.any(|word| word.starts_with(b"shared:"));
    optional.for_each(drop);
    Some(MountLine {
        mount_id,
        parent_id,
        device,
        root,
        mount_point,
        is_shared,
        fs_type: text(words.next()?)?,
        source: String::from_utf8_lossy(&unescape(words.next()?)).into_owned(),
        super_options: String::from_utf8_lossy(words.next()?).into_owned(),
    })
}

/// Whether a device is mounted anywhere in this namespace, or its node is.
pub(crate) fn is_shown(device: DeviceNumber) -> Result<bool, MountError> {
    let table = read()?;
    Ok(table.iter().any(|line| line.shown_device() == Some(device)))
}

/// The number of a device, by its node. Only nodes are looked at: a look at anything else may ask storage that hangs.
pub(crate) fn number_of(path: &Path) -> Option<DeviceNumber> {
    if !path.starts_with(DEVICES) {
        return None;
    }
    let status = rustix::fs::stat(path).ok()?;
    let is_block = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
    is_block.then(|| DeviceNumber::of_raw(status.st_rdev))
}

fn text(word: &[u8]) -> Option<String> {
    std::str::from_utf8(word).ok().map(str::to_owned)
}

fn path(word: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(word)))
}

/// Space, tab, line break, backslash and `#` are written as a backslash and three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
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

//! The mount table (`/proc/thread-self/mountinfo`, proc_pid_mountinfo(5)), parsed.
//!
//! It is apart because it is slow (1.8 ms at a thousand mounts) and used only where a single look by descriptor does not do: at recovery
//! and at a tear-down without a record, where storage that hangs must not be touched, and to see whether a path root is shared. It must not
//! know volumes.

use crate::block::DeviceNumber;
use crate::failure::kernel;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;

/// The table of the calling thread's mount namespace. (`/proc/self` is the first thread's, which can differ.)
const TABLE: &str = "/proc/thread-self/mountinfo";
/// Major number of file systems that lie on no block device.
const ANONYMOUS: u32 = 0;
/// Where the nodes of devices are.
const DEVICES: &str = "/dev";
/// The type of the file system there.
const DEVICES_TYPE: &str = "devtmpfs";

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountLine {
    /// As `statx` tells it.
    pub(crate) mount_id: u64,
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
}

impl MountLine {
    /// The block device below. A btrfs has a device number of its own making, so its source tells.
    pub(crate) fn block_device(&self) -> Option<DeviceNumber> {
        let (major, minor) = self.device.split_once(':')?;
        let number = DeviceNumber {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        };
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

/// Reads the table. Lines that make no sense are left out: one odd mount must not hide the others.
pub(crate) fn read() -> Result<Vec<MountLine>, MountError> {
    let table = std::fs::read(TABLE).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        kernel("read", "the mount table", errno)
    })?;
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
    let _parent = words.next()?;
    let device = text(words.next()?)?;
    let root = path(words.next()?);
    let mount_point = path(words.next()?);
    let _options = words.next()?;
    // Any number of optional words, ended by a lone hyphen.
    let mut is_shared = false;
    loop {
        match words.next()? {
            b"-" => break,
            word => is_shared |= word.starts_with(b"shared:"),
        }
    }
    Some(MountLine {
        mount_id,
        device,
        root,
        mount_point,
        is_shared,
        fs_type: text(words.next()?)?,
        source: String::from_utf8_lossy(&unescape(words.next()?)).into_owned(),
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
        rest = match after.split_first_chunk::<3>() {
            Some((digits, behind)) if *first == b'\\' => match octal(digits) {
                Some(byte) => {
                    plain.push(byte);
                    behind
                }
                None => {
                    plain.push(*first);
                    after
                }
            },
            _ => {
                plain.push(*first);
                after
            }
        };
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINES: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 98:0 /mnt1\\040a /mnt\\0402\\011tab\\134back rw,noatime master:1 shared:7 - ext3 /dev/root rw
37 35 98:0 / /mnt rw master:1 - ext3 a b
";

    #[test]
    fn lines_are_read_with_their_escapes_and_optional_words() {
        let line = |mount_id,
                    (device, fs_type, source): (&str, &str, &str),
                    root: &str,
                    point: &str,
                    is_shared| {
            MountLine {
                mount_id,
                device: device.to_owned(),
                root: root.into(),
                mount_point: point.into(),
                is_shared,
                fs_type: fs_type.to_owned(),
                source: source.to_owned(),
            }
        };
        let (proc, root_disk) = (("0:21", "proc", "proc"), ("98:0", "ext3", "/dev/root"));
        let disk = ("98:0", "ext3", "a");
        assert_eq!(
            parse(LINES.as_bytes()),
            [
                line(22, proc, "/", "/proc", false),
                line(36, root_disk, "/mnt1 a", "/mnt 2\ttab\\back", true),
                line(37, disk, "/", "/mnt", false),
            ]
        );
    }

    #[test]
    fn a_line_that_makes_no_sense_is_left_out_and_the_others_stay() {
        for bad in ["", "x", "1 2 3:4 / /a rw", "x 2 3:4 / /a rw - a b c", "1 2"] {
            let table = format!("{bad}\n{LINES}{bad}");
            assert_eq!(parse(table.as_bytes()).len(), 3, "{bad:?}");
        }
    }

    #[test]
    fn the_table_of_this_process_has_proc_in_it() {
        let table = read().unwrap();
        assert!(
            table
                .iter()
                .any(|line| line.mount_point.as_os_str() == "/proc")
        );
    }

    fn escape(path: &[u8]) -> Vec<u8> {
        let mut escaped = Vec::new();
        for byte in path {
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => {
                    escaped.extend(format!("\\{byte:03o}").bytes());
                }
                _ => escaped.push(*byte),
            }
        }
        escaped
    }

    proptest! {
        #[test]
        fn every_mount_point_survives_the_kernels_escaping(path in prop::collection::vec(1_u8.., 0..64)) {
            let mut line = b"1 2 3:4 / ".to_vec();
            line.extend(escape(&path));
            line.extend(b" rw shared:1 - tmpfs none rw");
            let parsed = parse(&line);
            prop_assert_eq!(parsed.len(), 1);
            prop_assert_eq!(parsed[0].mount_point.clone().into_os_string().into_vec(), path);
        }

        #[test]
        fn no_table_makes_the_parser_fail(table in prop::collection::vec(any::<u8>(), 0..512)) {
            let _ = parse(&table);
        }
    }
}

//! Reads loop devices from sysfs: their numbers, which ones are bound, and the path of the file behind each.

use crate::block::DeviceNumber;
use crate::failure::io;
use crate::sysfs::SYS;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;

/// All block devices of the node, in every container.
const BLOCK_DEVICES: &str = "/sys/block";
/// The kernel's suffix of the path of a removed file (`d_path`).
pub(super) const DELETED: &[u8] = b" (deleted)";

/// The name of a loop device in `/dev` and `/sys/block`. A partition of a loop device (`loop0p1`) is not a loop device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoopName(String);

impl LoopName {
    /// From the number that `/dev/loop-control` uses. The minor number of the device can differ (`max_part` of the module).
    pub(super) fn numbered(number: u32) -> Self {
        Self(format!("loop{number}"))
    }

    /// The name of the device with this number. `None`: there is no such device, or it is not a loop device.
    pub(super) fn of(number: DeviceNumber) -> Option<Self> {
        Self::parse(number.name(Path::new(SYS))?.as_ref())
    }

    fn parse(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let digits = name.strip_prefix("loop")?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| Self(name.to_owned()))
    }

    /// The device's number.
    pub(super) fn number(&self) -> Option<DeviceNumber> {
        DeviceNumber::parse(&fs::read_to_string(self.attribute("dev")).ok()?)
    }

    /// Whether it is bound to a file: the kernel shows its loop attributes only then.
    pub(super) fn is_bound(&self) -> bool {
        self.attribute("loop").is_dir()
    }

    /// The path of the file behind it, without the suffix of a removed file.
    pub(super) fn backing_path(&self) -> Option<PathBuf> {
        parse_backing(&fs::read(self.attribute("loop/backing_file")).ok()?)
    }

    /// Whether the file behind it, last known by this name, was removed.
    pub(super) fn is_backing_removed(&self, name: &str) -> bool {
        let line = fs::read(self.attribute("loop/backing_file"));
        line.is_ok_and(|line| is_removed(&line, name))
    }

    /// Path of its node in the node's `/dev`.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/{self}"))
    }

    fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{BLOCK_DEVICES}/{self}/{name}"))
    }
}

impl fmt::Display for LoopName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All loop devices that are currently bound to a file.
pub(super) fn bound() -> Result<Vec<LoopName>, MountError> {
    let entries = fs::read_dir(BLOCK_DEVICES).map_err(|error| io("read", BLOCK_DEVICES, &error))?;
    Ok(entries
        .filter_map(|entry| LoopName::parse(&entry.ok()?.file_name()))
        .filter(LoopName::is_bound)
        .collect())
}

/// One trailing newline comes from the kernel. Any other newline is part of the path, which sysfs does not escape.
fn parse_backing(line: &[u8]) -> Option<PathBuf> {
    let path = line.strip_suffix(b"\n").unwrap_or(line);
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    path.starts_with(b"/")
        .then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// Whether a path ends with the kernel's suffix of a removed file. A file name that happens to end like the suffix does not count.
fn is_removed(line: &[u8], name: &str) -> bool {
    let path = line.strip_suffix(b"\n").unwrap_or(line);
    let last = path.rsplit(|byte| *byte == b'/').next();
    path.ends_with(DELETED) && last != Some(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_loop_devices_have_the_name_of_one() {
        for name in [
            "loop", "loop0p1", "loopx", "xloop0", "sda", "", "loop 1", "loop+1",
        ] {
            assert_eq!(LoopName::parse(OsStr::new(name)), None, "{name}");
        }
        let name = LoopName::parse(OsStr::new("loop17")).unwrap();
        assert_eq!(name, LoopName::numbered(17));
        assert_eq!(name.path(), PathBuf::from("/dev/loop17"));
    }

    #[test]
    fn a_number_is_read_as_sysfs_writes_it() {
        let (major, minor) = (7, 128);
        assert_eq!(
            DeviceNumber::parse("7:128\n"),
            Some(DeviceNumber { major, minor })
        );
        for line in ["", "7", "7:", ":1", "7:-1", "a:b"] {
            assert_eq!(DeviceNumber::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_removed_file_differs_from_one_named_like_it() {
        for (line, name, removed) in [
            (&b"/pool/a.img\n"[..], "a.img", false),
            (b"/pool/a.img (deleted)\n", "a.img", true),
            (b"/pool/a (deleted)\n", "a (deleted)", false),
            (b"/pool/a (deleted) (deleted)\n", "a (deleted)", true),
            // The file was renamed before it was removed.
            (b"/pool/b.img (deleted)\n", "a.img", true),
            (b"\n", "a.img", false),
        ] {
            assert_eq!(is_removed(line, name), removed, "{name}");
        }
    }

    #[test]
    fn a_path_is_read_as_the_kernel_writes_it() {
        for (line, expected) in [
            (&b"/pool/a.img\n"[..], Some("/pool/a.img")),
            (b"/pool/a.img (deleted)\n", Some("/pool/a.img")),
            (b"/pool/a (deleted) (deleted)\n", Some("/pool/a (deleted)")),
            (b"/pool/a\nb\n\n", Some("/pool/a\nb\n")),
            (b"\n", None),
            (b"", None),
        ] {
            assert_eq!(parse_backing(line), expected.map(PathBuf::from));
        }
    }
}

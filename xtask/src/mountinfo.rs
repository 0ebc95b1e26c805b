//! The kernel's mount table as an observer outside the host reads it (proc_pid_mountinfo(5)).

use crate::failure::Failure;
use rustix::mount::UnmountFlags;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The mount table of this thread's mount namespace: tests have namespaces of their own.
const MOUNTINFO: &str = "/proc/thread-self/mountinfo";

/// Index of the mount point among the fields of a line.
const MOUNT_POINT: usize = 4;

/// Mount points at or below a directory, in the order in which they were mounted; a stacked mount point is listed more than once.
pub fn mounts_below(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let table = fs::read(MOUNTINFO).map_err(Failure::cannot(format!("read {MOUNTINFO}")))?;
    Ok(below(&table, directory))
}

/// Unmounts all mounts at or below a directory, the last one first; returns what was mounted.
pub fn unmount_below(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mounts = mounts_below(directory)?;
    for mount in mounts.iter().rev() {
        // A busy mount is detached: processes that use it keep it, and no other process sees it.
        rustix::mount::unmount(mount, UnmountFlags::NOFOLLOW)
            .or_else(|_| {
                rustix::mount::unmount(mount, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
            })
            .map_err(Failure::cannot(format!("unmount {}", mount.display())))?;
    }
    Ok(mounts)
}

fn below(table: &[u8], directory: &Path) -> Vec<PathBuf> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(MOUNT_POINT))
        .map(unescaped)
        .filter(|point| point.starts_with(directory))
        .collect()
}

/// The kernel writes space, tab, line break, backslash and `#` as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut parts = field.split(|byte| *byte == b'\\');
    let mut bytes = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let escape = part.split_at_checked(3).and_then(|(digits, rest)| {
            let byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?;
            Some((byte, rest))
        });
        let (byte, rest) = escape.unwrap_or((b'\\', part));
        bytes.push(byte);
        bytes.extend(rest);
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        40 27 8:1 /pool/a /tmp/demo/one rw - ext4 /dev/vda rw\n\
        41 27 8:1 /pool/a /tmp/demo/two\\040words ro shared:1 - ext4 /dev/vda rw\n\
        42 27 8:1 /pool/a /tmp/demo-other rw - ext4 /dev/vda rw\n";

    #[test]
    fn mounts_below_a_directory_are_found_with_their_escapes() {
        assert_eq!(
            below(TABLE, Path::new("/tmp/demo")),
            [Path::new("/tmp/demo/one"), Path::new("/tmp/demo/two words")]
        );
    }

    #[test]
    fn a_directory_of_which_only_the_name_begins_alike_is_not_below() {
        assert!(below(TABLE, Path::new("/tmp/dem")).is_empty());
    }

    #[test]
    fn a_backslash_that_is_no_escape_stays() {
        assert_eq!(unescaped(b"a\\9\\"), Path::new("a\\9\\"));
    }
}

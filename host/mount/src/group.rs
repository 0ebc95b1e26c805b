//! Applies the group of a request (CSI's `volume_mount_group`) to trees and file systems that store owners. Every entry gets the group, as in
//! kubelet's own walk (`pkg/volume/volume_linux.go`, with `OnRootMismatch`).
//!
//! The walk covers content that a pod wrote, so it goes by descriptor, follows no link and crosses no mount. The root is changed last and shows
//! whether a walk finished: a killed walk is repeated, and a finished one is not, however large the volume is.

use crate::confine::open_confined;
use crate::failure::{kernel, shown};
use crate::walk::{Stopped, if_there, walk};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// The path of the root, relative to itself.
const TOP: &[u8] = b".";
/// The permissions of the group on a file: kubelet's `rwMask`.
const FILE_BITS: u16 = 0o660;
/// The permissions on a directory: search as well, and new entries inherit the group.
const DIRECTORY_BITS: u16 = 0o2770;
/// The bits of a mode that chmod(2) sets.
const MODE_BITS: u16 = 0o7777;
/// The number that means "unchanged" to chown(2), so it cannot be a group.
const NO_GROUP: u32 = u32::MAX;

/// The state of an entry.
struct Entry {
    kind: FileType,
    group: u32,
    mode: u16,
}

/// Parses the group of a request.
pub(crate) fn group_number(group: &str) -> Result<u32, MountError> {
    match group.parse() {
        Ok(number) if number != NO_GROUP => Ok(number),
        _ => Err(MountError::invalid(
            "volume_mount_group",
            "it is not a group number",
            Blame::Of(Owner::Request),
        )),
    }
}

/// Changes the group of the whole volume, unless its root has the group already. A volume that is mounted read-only is not changed.
pub(crate) fn apply(root: &OwnedFd, group: u32, read_only: bool) -> Result<(), MountError> {
    if read_only {
        return Ok(());
    }
    let top = Entry::of(root).map_err(|errno| failed(TOP, errno))?;
    if top.is_as_required(group) {
        return Ok(());
    }
    change_all(root, group)?;
    // The root is changed last: from now on the walk counts as finished.
    top.give(root, group).map_err(|errno| failed(TOP, errno))
}

/// Changes all entries below a root.
fn change_all(root: &OwnedFd, group: u32) -> Result<(), MountError> {
    let change = |directory: BorrowedFd<'_>, name: &CStr| {
        // With these flags, opening a device or a named pipe has no side effect, and a link itself is opened.
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let Some(opened) = if_there(open_confined(directory, name, flags))? else {
            return Ok(false);
        };
        let found = Entry::of(&opened)?;
        if !found.is_as_required(group) {
            found.give(&opened, group)?;
        }
        Ok(found.kind == FileType::Directory)
    };
    walk(root, change).map_err(|Stopped { path, errno }| failed(&path, errno))
}

impl Entry {
    fn of(opened: impl AsFd) -> Result<Self, Errno> {
        let mask = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::GID;
        let Statx {
            stx_mode, stx_gid, ..
        } = rustix::fs::statx(opened, c"", AtFlags::EMPTY_PATH, mask)?;
        Ok(Self {
            kind: FileType::from_raw_mode(stx_mode.into()),
            group: stx_gid,
            mode: stx_mode & MODE_BITS,
        })
    }

    /// The mode that the entry must have. A link has no mode of its own.
    fn required_mode(&self) -> u16 {
        match self.kind {
            FileType::Symlink => self.mode,
            FileType::Directory => self.mode | DIRECTORY_BITS,
            _ => self.mode | FILE_BITS,
        }
    }

    fn is_as_required(&self, group: u32) -> bool {
        self.group == group && self.mode == self.required_mode()
    }

    /// Sets group and mode. The mode is set last: a change of the group clears the set-user and set-group bits (chown(2)), and kubelet keeps them.
    fn give(&self, opened: &OwnedFd, group: u32) -> Result<(), Errno> {
        let group = Some(Gid::from_raw(group));
        rustix::fs::chownat(opened, c"", None, group, AtFlags::EMPTY_PATH)?;
        if self.kind == FileType::Symlink {
            return Ok(());
        }
        // fchmod(2) does not accept an `O_PATH` descriptor, and fchmodat2(2) requires Linux 6.6. This name leads to the open file itself and nowhere
        // else.
        let name = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let mode = Mode::from_raw_mode(self.required_mode().into());
        rustix::fs::chmodat(CWD, name, mode, AtFlags::empty())
    }
}

fn failed(path: &[u8], errno: Errno) -> MountError {
    let path = String::from_utf8_lossy(path);
    let what = format!("directory `{}` of the volume", shown(&path));
    if errno == Errno::NAMETOOLONG {
        return MountError::unusable(
            what,
            "it lies deeper than 4095 bytes of path can say, so its group cannot be changed; move it up, or do without `volume_mount_group`",
        );
    }
    kernel("change of group", what, errno)
}

#[cfg(test)]
mod tests;

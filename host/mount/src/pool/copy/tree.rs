//! Copies a tree with modes, owners, times, extended attributes, links, hard links, named pipes and sockets. Device nodes are left out: volumes are
//! mounted so that they have no effect.
//!
//! It reads below one descriptor and writes below another, never through a link or onto another mount. Files are read one after another, so a change
//! meanwhile makes the copy fail (`unchanged`). Its memory does not grow with the tree: two directories for each level, each with a buffer of at most
//! 50 KiB, are 10 MiB.

use super::unchanged::{self, TreeFingerprint, changed};
use super::{CopyError, DEPTH, data};
use crate::confine::{DIRECTORY, entries, open_confined};
use crate::pool::directory::file_type;
use crate::pool::handle::make_folder;
use crate::pool::ledger::Inode;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Statx, StatxFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Name of the copy in its temporary directory.
pub(super) const TREE_NAME: &str = "tree";
/// A directory beside the copy. Each file with several names has an additional link in it, named by its inode number in the source. So the list of
/// these files needs no memory.
const LINKS_NAME: &str = "links";
/// Largest extended attribute, and largest list of attribute names (xattr(7)).
const ATTRIBUTE_BYTES: usize = 64 << 10;

struct TreeCopy {
    full_copies: bool,
    links: OwnedFd,
    devices: usize,
    /// Whether at least one file shares blocks with its source.
    shares: bool,
    /// Fingerprint of all entries, each taken before it was read.
    fingerprint: TreeFingerprint,
}

/// Copies a tree, as of one moment, into an empty directory. Returns the open copy, and whether it shares blocks with its source.
pub(super) fn copy(
    from: BorrowedFd<'_>,
    folder: &OwnedFd,
    full_copies: bool,
) -> Result<(OwnedFd, bool), CopyError> {
    // A write through a mapping is detected only if its page was written out before.
    rustix::fs::syncfs(from).map_err(CopyError::Read)?;
    let to = make_folder(folder, TREE_NAME).map_err(CopyError::Write)?;
    let mut copy = TreeCopy {
        full_copies,
        links: make_folder(folder, LINKS_NAME).map_err(CopyError::Write)?,
        devices: 0,
        shares: false,
        fingerprint: TreeFingerprint::new(),
    };
    let status = copy.fingerprint.entry(from, c"")?;
    copy.directory(from, to.as_fd(), &status, 0)?;
    // Each entry is unchanged since before it was read, so all entries had this state at the moment in between.
    if unchanged::digest(from)? != copy.fingerprint.end() {
        return Err(CopyError::Written);
    }
    if copy.devices > 0 {
        let devices = copy.devices;
        tracing::warn!(devices, "a copy leaves out device nodes");
    }
    Ok((to, copy.shares))
}

impl TreeCopy {
    /// Copies the entries of a directory at this depth, then the attributes of the directory itself: its times change until then.
    fn directory(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        status: &Statx,
        depth: usize,
    ) -> Result<(), CopyError> {
        if depth > DEPTH {
            return Err(CopyError::TooDeep);
        }
        for entry in entries(from).map_err(CopyError::Read)? {
            let entry = entry.map_err(CopyError::Read)?;
            self.entry(from, to, entry.file_name(), depth)?;
        }
        likeness(from, to, status).map_err(CopyError::Write)
    }

    fn entry(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        depth: usize,
    ) -> Result<(), CopyError> {
        let status = self.fingerprint.entry(from, name)?;
        let kind = file_type(&status);
        let has_names = kind != FileType::Directory && status.stx_nlink > 1;
        if has_names && self.link(&status, to, name).map_err(CopyError::Write)? {
            return Ok(());
        }
        match kind {
            FileType::Directory => {
                let inner = open_confined(from, name, DIRECTORY).map_err(changed)?;
                rustix::fs::mkdirat(to, name, Mode::RWXU).map_err(CopyError::Write)?;
                let copy = open_confined(to, name, DIRECTORY).map_err(CopyError::Write)?;
                return self.directory(inner.as_fd(), copy.as_fd(), &status, depth + 1);
            }
            FileType::RegularFile => self.file(from, to, name)?,
            FileType::Symlink => {
                let text = rustix::fs::readlinkat(from, name, Vec::new()).map_err(changed)?;
                rustix::fs::symlinkat(text, to, name)
                    .and_then(|()| name_likeness(to, name, &status))
                    .map_err(CopyError::Write)?;
            }
            FileType::Fifo | FileType::Socket => {
                rustix::fs::mknodat(to, name, kind, mode(&status), 0)
                    .and_then(|()| name_likeness(to, name, &status))
                    .map_err(CopyError::Write)?;
            }
            _ => {
                self.devices += 1;
                return Ok(());
            }
        }
        if has_names {
            rustix::fs::linkat(to, name, &self.links, key(&status), AtFlags::empty())
                .map_err(CopyError::Write)?;
        }
        Ok(())
    }

    /// Adds another name to an already copied file. `false`: it was not copied yet.
    fn link(&self, source: &Statx, to: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
        let (links, key) = (&self.links, key(source));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        // Without the link in the auxiliary directory, and with this one.
        let names = match rustix::fs::statx(links, &key, flags, StatxFlags::NLINK) {
            Ok(copy) => copy.stx_nlink,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        // The last name replaces the link in the auxiliary directory, because the source may have the maximum number of links.
        match names < source.stx_nlink {
            true => rustix::fs::linkat(links, &key, to, name, AtFlags::empty()),
            false => rustix::fs::renameat(links, &key, to, name),
        }?;
        Ok(true)
    }

    fn file(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<(), CopyError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let from = open_confined(from, name, flags).map_err(changed)?;
        let (_, status) = Inode::of_fd(&from).map_err(CopyError::Read)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(CopyError::Write)?;
        self.shares |= data::copy(from.as_fd(), to.as_fd(), status.stx_size, self.full_copies)?;
        likeness(from.as_fd(), to.as_fd(), &status).map_err(CopyError::Write)
    }
}

/// The name of a file in the auxiliary directory. Each subvolume of a btrfs has a device number and inode numbers of its own.
fn key(source: &Statx) -> String {
    let Statx {
        stx_dev_major,
        stx_dev_minor,
        stx_ino,
        ..
    } = source;
    format!("{stx_dev_major:x}:{stx_dev_minor:x}:{stx_ino:x}")
}

/// Sets owner, mode, attributes and times of an open copy. The order matters: a change of the owner clears set-user bits and capabilities.
fn likeness(from: BorrowedFd<'_>, to: BorrowedFd<'_>, status: &Statx) -> Result<(), Errno> {
    let (uid, gid) = owner(status);
    rustix::fs::fchown(to, uid, gid)?;
    rustix::fs::fchmod(to, mode(status))?;
    attributes(from, to);
    rustix::fs::futimens(to, &times(status))
}

/// The same for links and special files, which cannot be opened.
fn name_likeness(to: BorrowedFd<'_>, name: &CStr, status: &Statx) -> Result<(), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let (uid, gid) = owner(status);
    rustix::fs::chownat(to, name, uid, gid, flags)?;
    rustix::fs::utimensat(to, name, &times(status), flags)
}

/// Copies extended attributes as far as possible: some are specific to a file system or need privileges that the host may lack.
fn attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let mut names = vec![0; ATTRIBUTE_BYTES];
    let Ok(length) = rustix::fs::flistxattr(from, names.as_mut_slice()) else {
        return;
    };
    names.truncate(length);
    let mut value = Vec::new();
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        value.resize(ATTRIBUTE_BYTES, 0);
        if let Ok(length) = rustix::fs::fgetxattr(from, name, value.as_mut_slice()) {
            value.truncate(length);
            let _ = rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty());
        }
    }
}

fn mode(status: &Statx) -> Mode {
    Mode::from_raw_mode(u32::from(status.stx_mode) & 0o7777)
}

fn owner(status: &Statx) -> (Option<Uid>, Option<Gid>) {
    let (uid, gid) = (status.stx_uid, status.stx_gid);
    (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
}

fn times(status: &Statx) -> Timestamps {
    let time = |time: rustix::fs::StatxTimestamp| Timespec {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_nsec.into(),
    };
    Timestamps {
        last_access: time(status.stx_atime),
        last_modification: time(status.stx_mtime),
    }
}

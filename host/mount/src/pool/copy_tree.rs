//! How content is copied: a file's data, sharing blocks where the file system can and keeping holes; a tree with modes, owners, times,
//! extended attributes, links, hard links, named pipes and sockets. Device nodes are left out: a volume is mounted so that they do nothing.
//!
//! It reads below one descriptor and writes below another, never through a link or onto another mount. It knows neither pools nor promises.

use crate::confine::open_confined;
use crate::pool::copy::Copying;
use crate::pool::open::DIRECTORY;
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, SeekFrom, Statx, StatxFlags, Timespec, Timestamps,
    Uid, XattrFlags,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Deepest tree that is copied: two descriptors are open for each level, and 1024 are a process's usual limit.
pub(super) const DEPTH: usize = 200;
/// One step of a full copy, in bytes: large enough to cost nothing, small enough for a fallback buffer.
const STEP_BYTES: usize = 1 << 20;
/// Largest extended attribute, and largest list of their names (xattr(7)).
const ATTRIBUTE_BYTES: usize = 64 << 10;

/// Why a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyError {
    /// The file system cannot share blocks, and full copies are not granted.
    CannotShare,
    /// The source has another mount in it.
    Mount,
    /// The source is deeper than [`DEPTH`].
    TooDeep,
    Read(Errno),
    Write(Errno),
}

struct TreeCopy<'a> {
    copying: Copying,
    /// The target's top, which hard links are found from.
    top: BorrowedFd<'a>,
    /// Where a file with several names was copied to first, by its inode's number.
    links: HashMap<u64, CString>,
    devices: usize,
    /// Whether a file shares blocks with its source.
    shares: bool,
}

/// Copies a tree into the empty directory `name`. Returns it open, and whether it shares blocks with its source.
pub(super) fn tree(
    from: BorrowedFd<'_>,
    parent: &OwnedFd,
    name: &str,
    copying: Copying,
) -> Result<(OwnedFd, bool), CopyError> {
    let to = open_confined(parent, name, DIRECTORY).map_err(CopyError::Write)?;
    let mut copy = TreeCopy {
        copying,
        top: to.as_fd(),
        links: HashMap::new(),
        devices: 0,
        shares: false,
    };
    copy.directory(from, to.as_fd(), &mut Vec::new())?;
    if copy.devices > 0 {
        let devices = copy.devices;
        tracing::warn!(devices, "a copy leaves out device nodes");
    }
    let shares = copy.shares;
    Ok((to, shares))
}

/// Copies the data of an open file of `size` bytes into an empty one. Whether they share blocks.
pub(super) fn content(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    size: u64,
    copying: Copying,
) -> Result<bool, CopyError> {
    if size == 0 {
        return Ok(false);
    }
    match rustix::fs::ioctl_ficlone(to, from) {
        Ok(()) => return Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::XDEV | Errno::NOSYS) => {}
        Err(errno) => return Err(CopyError::Write(errno)),
    }
    if copying == Copying::Shared {
        return Err(CopyError::CannotShare);
    }
    // Holes stay holes: only what is between them is written.
    rustix::fs::ftruncate(to, size).map_err(CopyError::Write)?;
    let mut end = 0;
    while end < size {
        let start = match rustix::fs::seek(from, SeekFrom::Data(end)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(CopyError::Read(errno)),
        };
        end = rustix::fs::seek(from, SeekFrom::Hole(start)).map_err(CopyError::Read)?;
        range(from, to, start, end.min(size))?;
    }
    Ok(false)
}

fn range(from: BorrowedFd<'_>, to: BorrowedFd<'_>, start: u64, end: u64) -> Result<(), CopyError> {
    let mut at = start;
    while at < end {
        let step = usize::try_from(end - at)
            .unwrap_or(STEP_BYTES)
            .min(STEP_BYTES);
        let (mut read_at, mut write_at) = (at, at);
        let copied =
            rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), step);
        let copied = match copied {
            Ok(copied) => copied,
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::XDEV | Errno::NOSYS) => {
                through_memory(from, to, at, step)?
            }
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(CopyError::Write(errno)),
        };
        if copied == 0 {
            // The source became shorter.
            return Ok(());
        }
        at += copied as u64;
    }
    Ok(())
}

fn through_memory(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    at: u64,
    step: usize,
) -> Result<usize, CopyError> {
    let mut buffer = vec![0; step];
    let count = rustix::io::pread(from, buffer.as_mut_slice(), at).map_err(CopyError::Read)?;
    buffer.truncate(count);
    let mut rest = buffer.as_slice();
    let mut at = at;
    while !rest.is_empty() {
        let written = rustix::io::pwrite(to, rest, at).map_err(CopyError::Write)?;
        at += written as u64;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(count)
}

impl TreeCopy<'_> {
    /// Copies what is in a directory, then what the directory itself is like: its times change until then. `path` leads there from the top.
    fn directory(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        path: &mut Vec<CString>,
    ) -> Result<(), CopyError> {
        if path.len() > DEPTH {
            return Err(CopyError::TooDeep);
        }
        for entry in Dir::read_from(from).map_err(CopyError::Read)? {
            let entry = entry.map_err(CopyError::Read)?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                path.push(name.to_owned());
                self.entry(from, to, name, path)?;
                path.pop();
            }
        }
        let status = rustix::fs::statx(from, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
            .map_err(CopyError::Read)?;
        likeness(from, to, &status).map_err(CopyError::Write)
    }

    fn entry(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        path: &mut Vec<CString>,
    ) -> Result<(), CopyError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let status = rustix::fs::statx(from, name, flags, StatxFlags::BASIC_STATS)
            .map_err(CopyError::Read)?;
        let kind = FileType::from_raw_mode(status.stx_mode.into());
        if kind != FileType::Directory && status.stx_nlink > 1 {
            if let Some(first) = self.links.get(&status.stx_ino) {
                return rustix::fs::linkat(self.top, first, to, name, AtFlags::empty())
                    .map_err(CopyError::Write);
            }
            if let Some(first) = joined(path) {
                self.links.insert(status.stx_ino, first);
            }
        }
        match kind {
            FileType::Directory => {
                let inner = open_confined(from, name, DIRECTORY).map_err(read_failed)?;
                rustix::fs::mkdirat(to, name, Mode::RWXU).map_err(CopyError::Write)?;
                let copy = open_confined(to, name, DIRECTORY).map_err(CopyError::Write)?;
                self.directory(inner.as_fd(), copy.as_fd(), path)
            }
            FileType::RegularFile => self.file(from, to, name),
            FileType::Symlink => {
                let text =
                    rustix::fs::readlinkat(from, name, Vec::new()).map_err(CopyError::Read)?;
                rustix::fs::symlinkat(text, to, name).map_err(CopyError::Write)?;
                name_likeness(to, name, &status).map_err(CopyError::Write)
            }
            FileType::Fifo | FileType::Socket => {
                rustix::fs::mknodat(to, name, kind, mode(&status), 0).map_err(CopyError::Write)?;
                name_likeness(to, name, &status).map_err(CopyError::Write)
            }
            _ => {
                self.devices += 1;
                Ok(())
            }
        }
    }

    fn file(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<(), CopyError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let from = open_confined(from, name, flags).map_err(read_failed)?;
        let status = rustix::fs::statx(&from, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
            .map_err(CopyError::Read)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(CopyError::Write)?;
        self.shares |= content(from.as_fd(), to.as_fd(), status.stx_size, self.copying)?;
        likeness(from.as_fd(), to.as_fd(), &status).map_err(CopyError::Write)
    }
}

/// The path of a name from the top.
fn joined(path: &[CString]) -> Option<CString> {
    let parts: Vec<&[u8]> = path.iter().map(|part| part.to_bytes()).collect();
    CString::new(parts.join(&b'/')).ok()
}

fn read_failed(errno: Errno) -> CopyError {
    match errno {
        Errno::XDEV => CopyError::Mount,
        errno => CopyError::Read(errno),
    }
}

/// Gives an open copy owner, mode, attributes and times. In this order: a change of owner takes setuid and capabilities away.
fn likeness(from: BorrowedFd<'_>, to: BorrowedFd<'_>, status: &Statx) -> Result<(), Errno> {
    rustix::fs::fchown(to, owner(status), group(status))?;
    rustix::fs::fchmod(to, mode(status))?;
    attributes(from, to);
    rustix::fs::futimens(to, &times(status))
}

/// The same for what cannot be opened: links and special files.
fn name_likeness(to: BorrowedFd<'_>, name: &CStr, status: &Statx) -> Result<(), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(to, name, owner(status), group(status), flags)?;
    rustix::fs::utimensat(to, name, &times(status), flags)
}

/// As far as possible: some belong to one file system or to rights that the host may lack.
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

fn owner(status: &Statx) -> Option<Uid> {
    Some(Uid::from_raw(status.stx_uid))
}

fn group(status: &Statx) -> Option<Gid> {
    Some(Gid::from_raw(status.stx_gid))
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

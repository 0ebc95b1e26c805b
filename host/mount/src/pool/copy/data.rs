//! Copies the data of one open file: blocks are shared if the file system supports it; otherwise the data between the holes is copied in steps.

use super::job::CopyError;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use wasmount_sys::fiemap;

/// One step of a full copy, in bytes: large enough for negligible overhead, small enough for a fallback buffer.
const STEP_BYTES: usize = 1 << 20;

/// Copies the data of an open file of `size` bytes into an empty one. Returns whether they share blocks.
pub(super) fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    size: u64,
    full_copies: bool,
) -> Result<bool, CopyError> {
    if size == 0 || share(from, to)? {
        return Ok(size > 0);
    }
    if !full_copies {
        return Err(CopyError::CannotShare);
    }
    write_out(from)?;
    full(from, to, size, || Ok(()))?;
    Ok(false)
}

/// Whether files of this file system can share blocks, tested with an empty file that shares nothing with itself.
pub(super) fn can_share(empty: BorrowedFd<'_>) -> Result<bool, CopyError> {
    share(empty, empty)
}

/// Makes an empty file share all blocks of another, as of one moment. `false`: the file system does not support it.
pub(super) fn share(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<bool, CopyError> {
    match rustix::fs::ioctl_ficlone(to, from) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::XDEV | Errno::NOSYS) => {
            Ok(false)
        }
        Err(errno) => Err(CopyError::Write(errno)),
    }
}

/// Copies the data between the holes. `check` is called after each step and decides whether to continue.
pub(super) fn full(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    size: u64,
    check: impl Fn() -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    // Holes are kept: only the data between them is written.
    rustix::fs::ftruncate(to, size).map_err(CopyError::Write)?;
    let mut end = 0;
    while end < size {
        let start = match rustix::fs::seek(from, SeekFrom::Data(end)) {
            Ok(start) => start,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(CopyError::Read(errno)),
        };
        end = rustix::fs::seek(from, SeekFrom::Hole(start)).map_err(CopyError::Read)?;
        range(from, to, start..end.min(size), &check)?;
    }
    Ok(())
}

/// Writes the dirty pages of a file to storage. A write through a mapping changes the file's times once, and not again until the page was written
/// out, so a later write would not be detected. Sharing blocks writes the pages out itself.
fn write_out(file: BorrowedFd<'_>) -> Result<(), CopyError> {
    // If supported, without a flush of the disk's cache, which each of 10,000 files would wait for.
    match fiemap::write_out(file) {
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => rustix::fs::fdatasync(file),
        written => written,
    }
    .map_err(CopyError::Read)
}

fn range(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    bytes: Range<u64>,
    check: &impl Fn() -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let mut at = bytes.start;
    while at < bytes.end {
        let step = usize::try_from(bytes.end - at)
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
            // The source was truncated.
            return Ok(());
        }
        at += copied as u64;
        check()?;
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

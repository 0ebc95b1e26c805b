//! Copies the data of one open file: blocks are shared if the file system supports it; otherwise the data between the holes is copied in steps.

use super::CopyError;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use wasmount_sys::fiemap;

/// One step of a full copy, in bytes: large enough for negligible overhead. The source is checked after each.
const STEP_BYTES: usize = 1 << 20;

/// Copies the data of an open file of `size` bytes into an empty one. Returns whether they share blocks.
pub(super) fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    size: u64,
    full_copies: bool,
) -> Result<bool, CopyError> {
    if size == 0 {
        return Ok(false);
    }
    match share(from, to) {
        Err(CopyError::CannotShare) if full_copies => {}
        shared => return shared.map(|()| true),
    }
    write_out(from)?;
    full(from, to, size, || Ok(()))?;
    Ok(false)
}

/// Makes an empty file share all blocks of another, as of one moment. An empty file that shares nothing with itself tests whether files of its file
/// system can.
pub(super) fn share(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), CopyError> {
    rustix::fs::ioctl_ficlone(to, from).map_err(|errno| match errno {
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::XDEV | Errno::NOSYS => {
            CopyError::CannotShare
        }
        errno => CopyError::Write(errno),
    })
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
        match copied {
            // The source was truncated.
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(CopyError::Write(errno)),
        }
        at = read_at;
        check()?;
    }
    Ok(())
}

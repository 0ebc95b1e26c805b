//! Whether a file stands still while it is copied. Apart because it is what makes a full copy of an image a copy of one moment: blocks that
//! are shared are taken at once by the kernel, bytes that are read one after another are of one moment only if nobody wrote meanwhile.
//!
//! A loop device writes through its file, so what a mounted volume writes shows in the file's times. It knows nothing of pools.

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::BorrowedFd;
use std::thread::sleep;
use std::time::Duration;

/// Two writes within this may leave the same time: two ticks of the slowest kernel clock (`CONFIG_HZ_100`); since Linux 6.13 times are fine
/// enough by themselves.
const TICK: Duration = Duration::from_millis(20);
/// How often a file that was written just now is looked at again before its copy begins.
const LOOKS: u32 = 5;

/// A file that is being copied.
#[derive(Debug)]
pub(super) struct Still<'a> {
    file: BorrowedFd<'a>,
    version: Option<Version>,
}

/// Second and nanosecond of the last write, and the size.
type Version = (i64, u32, u64);

impl<'a> Still<'a> {
    /// Looks at nothing yet.
    pub(super) fn new(file: BorrowedFd<'a>) -> Self {
        Self {
            file,
            version: None,
        }
    }

    /// Asked before the first byte is read and after the last: whether nobody wrote since the first time.
    pub(super) fn stands(&mut self) -> Result<bool, Errno> {
        let now = version(self.file)?;
        match self.version {
            Some(before) => Ok(now == before),
            None => {
                self.version = Some(settled(self.file, now)?);
                Ok(true)
            }
        }
    }
}

/// The version, once a write that follows must show in it.
fn settled(file: BorrowedFd<'_>, mut seen: Version) -> Result<Version, Errno> {
    for _ in 0..LOOKS {
        if !is_fresh(seen) {
            break;
        }
        sleep(TICK);
        seen = version(file)?;
    }
    Ok(seen)
}

fn is_fresh((seconds, nanoseconds, _): Version) -> bool {
    let now = clock_gettime(ClockId::Realtime);
    let nanoseconds_of =
        |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
    let age = nanoseconds_of(now.tv_sec, now.tv_nsec) - nanoseconds_of(seconds, nanoseconds.into());
    age.unsigned_abs() < TICK.as_nanos()
}

fn version(file: BorrowedFd<'_>) -> Result<Version, Errno> {
    let wanted = StatxFlags::MTIME | StatxFlags::SIZE;
    let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
    Ok((
        status.stx_mtime.tv_sec,
        status.stx_mtime.tv_nsec,
        status.stx_size,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_that_nobody_writes_stands_still() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"a").unwrap();
        let mut still = Still::new(file.as_fd());
        assert_eq!([still.stands(), still.stands()], [Ok(true), Ok(true)]);
    }

    #[test]
    fn a_write_is_seen_however_soon_it_comes() {
        for _ in 0..20 {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"a").unwrap();
            let mut still = Still::new(file.as_fd());
            assert_eq!(still.stands(), Ok(true));
            file.write_all_at(b"b", 0).unwrap();
            assert_eq!(still.stands(), Ok(false));
        }
    }
}

//! Whether files stand still while they are copied. The blocks of one file are shared at once by the kernel, bytes that are read one after another,
//! and files that are shared one after another, are of one moment only if nobody wrote meanwhile.
//!
//! A loop device writes through its file, so what a mounted volume writes shows in the file's times. It knows nothing of pools.

use rustix::fs::{AtFlags, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::BorrowedFd;
use std::thread::sleep;
use std::time::Duration;

/// Two writes within this may leave the same time: two ticks of the slowest kernel clock (`CONFIG_HZ_100`); since Linux 6.13 times are fine
/// enough by themselves.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// How often files that were written just now are looked at again before their copy begins. After as many ticks somebody writes all the time.
pub(super) const LOOKS: usize = 5;

/// Files that are being copied.
#[derive(Debug)]
pub(super) struct Still<'a> {
    files: Vec<BorrowedFd<'a>>,
    versions: Option<Vec<Version>>,
}

/// Second and nanosecond of the last write, and the size.
type Version = (i64, u32, u64);

impl<'a> Still<'a> {
    /// Looks at nothing yet.
    pub(super) fn new(files: Vec<BorrowedFd<'a>>) -> Self {
        Self {
            files,
            versions: None,
        }
    }

    /// Asked before the first byte is read and after the last: which of the files was written to since the first time, or is all the time.
    pub(super) fn written(&mut self) -> Result<Option<usize>, Errno> {
        let Some(before) = &self.versions else {
            let (versions, written) = self.settled()?;
            self.versions = Some(versions);
            return Ok(written);
        };
        for (index, (file, before)) in self.files.iter().zip(before).enumerate() {
            if version(*file)? != *before {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The versions, once a write that follows must show in them; and one that does not come to that.
    fn settled(&self) -> Result<(Vec<Version>, Option<usize>), Errno> {
        let mut looks = 0;
        loop {
            let versions = self.files.iter().map(|file| version(*file));
            let versions: Vec<_> = versions.collect::<Result<_, _>>()?;
            let is_new = |(seconds, nanoseconds, _): &Version| is_fresh(*seconds, *nanoseconds);
            let fresh = versions.iter().position(is_new);
            if fresh.is_none() || looks == LOOKS {
                return Ok((versions, fresh));
            }
            looks += 1;
            sleep(TICK);
        }
    }
}

/// Whether a write just now may leave this time once more.
pub(super) fn is_fresh(seconds: i64, nanoseconds: u32) -> bool {
    let now = clock_gettime(ClockId::Realtime);
    let nanoseconds_of =
        |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
    let age = nanoseconds_of(now.tv_sec, now.tv_nsec) - nanoseconds_of(seconds, nanoseconds.into());
    age.unsigned_abs() < TICK.as_nanos()
}

fn version(file: BorrowedFd<'_>) -> Result<Version, Errno> {
    let wanted = StatxFlags::MTIME | StatxFlags::SIZE;
    let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
    let StatxTimestamp {
        tv_sec, tv_nsec, ..
    } = status.stx_mtime;
    Ok((tv_sec, tv_nsec, status.stx_size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn files_that_nobody_writes_stand_still() {
        let files = [(); 3].map(|()| tempfile::tempfile().unwrap());
        for mut file in &files {
            file.write_all(b"a").unwrap();
        }
        let mut still = Still::new(files.iter().map(AsFd::as_fd).collect());
        assert_eq!([still.written(), still.written()], [Ok(None), Ok(None)]);
    }

    #[test]
    fn a_write_is_seen_however_soon_it_comes_and_where() {
        for round in 0..21 {
            let files = [(); 3].map(|()| tempfile::tempfile().unwrap());
            for mut file in &files {
                file.write_all(b"a").unwrap();
            }
            let mut still = Still::new(files.iter().map(AsFd::as_fd).collect());
            assert_eq!(still.written(), Ok(None));
            files[round % 3].write_all_at(b"b", 0).unwrap();
            assert_eq!(still.written(), Ok(Some(round % 3)));
        }
    }
}

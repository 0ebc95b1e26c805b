//! Whether a file is open for writing, which the kernel tells only by granting or refusing a read lease (`F_SETLEASE` of fcntl(2)).

use linux_raw_sys::general::{F_RDLCK, F_SETLEASE, F_SETSIG, F_UNLCK, SIGURG};
use rustix::io::{Errno, Result};
use std::fs::File;
use std::os::fd::AsRawFd;

/// The signal of a writer that opens the file while the lease is held. Its default action is to be ignored; that of SIGIO, the default
/// signal, ends the process.
const LEASE_BROKEN: u32 = SIGURG;

/// Whether any process of this machine has a file open for writing; the file given was opened for reading. `EACCES`: it belongs to another user, and
/// this process lacks CAP_LEASE. `EINVAL`: its file system has no leases. Network file systems may report a writer where there is none (NFS without a
/// delegation).
pub fn has_writer(file: &File) -> Result<bool> {
    set(file, F_SETSIG, LEASE_BROKEN)?;
    match set(file, F_SETLEASE, F_RDLCK) {
        // It is held for a moment: a writer that opens the file waits until then.
        Ok(()) => set(file, F_SETLEASE, F_UNLCK).map(|()| false),
        Err(Errno::AGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

fn set(file: &File, command: u32, value: u32) -> Result<()> {
    // SAFETY: both commands take an integer, and the descriptor is open.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command as libc::c_int, value) };
    crate::check(result.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_has_a_writer_while_one_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let writer = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(has_writer(&reader), Ok(true));
        drop(writer);
        // Another test that starts a process gives it the descriptor until it executes its program.
        while has_writer(&reader) == Ok(true) {
            std::thread::yield_now();
        }
        assert_eq!(has_writer(&reader), Ok(false));
        // The lease is given back: writers do not wait.
        fs::write(&path, "b").unwrap();
    }

    #[test]
    fn what_is_no_regular_file_has_no_lease() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        assert_eq!(has_writer(&directory), Err(Errno::INVAL));
    }
}

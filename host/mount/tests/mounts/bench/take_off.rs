//! Unmounting by a test, as an administrator does it.

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a starting program may hold copies of this process's descriptors: from its fork to its exec.
const PATIENCE: Duration = Duration::from_secs(5);

/// Unmounts, after nothing keeps the mount busy any more.
pub(crate) fn take_off(path: impl AsRef<Path>) {
    let end = Instant::now() + PATIENCE;
    loop {
        match unmount(path.as_ref(), UnmountFlags::empty()) {
            Err(Errno::BUSY) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done.unwrap(),
        }
    }
}

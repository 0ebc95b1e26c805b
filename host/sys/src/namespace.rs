//! Mount namespaces of threads (unshare(2)).

use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread, and what it starts, a mount namespace of its own. The thread no longer shares its root and working directory with others.
pub fn unshare_mounts() -> Result<(), Errno> {
    // SAFETY: only `UnshareFlags::FILES` affects the soundness of I/O safety, and it is not among the flags.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
}

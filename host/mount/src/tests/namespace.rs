//! A mount namespace for a test, so that nothing of it is left on the machine, and unmounting in it.

use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::UnshareFlags;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a starting program may hold copies of this process's descriptors: from its fork to its exec.
const PATIENCE: Duration = Duration::from_secs(5);

/// Gives the calling thread, and the threads that it starts, their own mount namespace. A namespace belongs to a thread, so a test starts a new
/// thread.
pub(crate) fn unshare() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test needs root (CAP_SYS_ADMIN); leave it out with `--skip privileged_`"
    );
    #[allow(
        deprecated,
        reason = "the unsafe successor is about FILES, which is not asked for"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNS).unwrap();
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).unwrap();
}

/// Runs a test in a mount namespace that ends with it.
pub(crate) fn in_a_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        unshare();
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Unmounts, after no program that another test starts holds a file of it any more.
pub(crate) fn take_off(path: &Path) {
    let end = Instant::now() + PATIENCE;
    while let Err(errno) = unmount(path, UnmountFlags::empty()) {
        assert!(errno == Errno::BUSY && Instant::now() < end, "{errno}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

//! A mount namespace for one test. Each new namespace begins with a copy of every mount that it sees, and as long as the
//! copy is there, a file system that was unmounted and its loop device are in use: tests that ask whether they are must not be seen.

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;
use std::path::Path;

/// All mounts lie below it.
const ROOT: &str = "/";

/// Moves the calling thread into a namespace of its own. Its mounts are shared, as kubelet's directory must be, but with no other namespace.
///
/// # Panics
/// Without CAP_SYS_ADMIN.
pub fn enter() {
    let entered = unshare()
        .and_then(|()| change(MountPropagationFlags::PRIVATE))
        .and_then(|()| change(MountPropagationFlags::SHARED));
    assert!(
        entered.is_ok(),
        "a mount namespace of its own is refused to this test: {entered:?}"
    );
}

fn unshare() -> rustix::io::Result<()> {
    #[allow(
        deprecated,
        reason = "the unsafe successor is about FILES, which is not asked for"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNS)
}

fn change(propagation: MountPropagationFlags) -> rustix::io::Result<()> {
    mount_change(Path::new(ROOT), propagation | MountPropagationFlags::REC)
}

//! A mount namespace for one test. Each new namespace begins with a copy of every mount. As long as the copy exists, an unmounted file system and its
//! loop device are in use: a test that checks for this must be in a namespace that others do not copy.

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;
use std::path::Path;

/// The root of all mounts.
const ROOT: &str = "/";

/// Moves the calling thread into its own namespace. Its mounts are shared, as kubelet's directory must be, but with no other namespace.
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

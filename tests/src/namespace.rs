//! Namespaces for one test. Each new one of mounts begins with a copy of every mount. As long as the copy exists, an unmounted file system and its
//! loop device are in use: a test that checks for this must be in a namespace that others do not copy.

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// The root of all mounts.
const ROOT: &str = "/";

/// Moves the calling thread into its own namespace. Its mounts are shared, as kubelet's directory must be, but with no other namespace.
///
/// # Panics
/// Without CAP_SYS_ADMIN.
pub fn enter() {
    let entered = unshare(UnshareFlags::NEWNS)
        .and_then(|()| change(MountPropagationFlags::PRIVATE))
        .and_then(|()| change(MountPropagationFlags::SHARED));
    assert!(
        entered.is_ok(),
        "a mount namespace of its own is refused to this test: {entered:?}"
    );
}

/// Moves the calling thread, and what it starts, into a network of its own: a loopback device, which has this address too.
///
/// # Panics
/// Without CAP_SYS_ADMIN, or without `ip`.
pub fn enter_network(address: Ipv4Addr) {
    let entered = unshare(UnshareFlags::NEWNET);
    assert!(
        entered.is_ok(),
        "a network of its own is refused to this test: {entered:?}"
    );
    let address = address.to_string();
    for words in [
        ["link", "set", "lo", "up", ""],
        ["address", "add", &address, "dev", "lo"],
    ] {
        let words = words.iter().filter(|word| !word.is_empty());
        let done = Command::new("ip").args(words).status();
        assert!(done.is_ok_and(|status| status.success()), "`ip` failed");
    }
}

fn unshare(namespace: UnshareFlags) -> rustix::io::Result<()> {
    #[allow(
        deprecated,
        reason = "the unsafe successor is about FILES, which is not asked for"
    )]
    rustix::thread::unshare(namespace)
}

fn change(propagation: MountPropagationFlags) -> rustix::io::Result<()> {
    mount_change(Path::new(ROOT), propagation | MountPropagationFlags::REC)
}

//! The check for root, which tests with the prefix `privileged_` need.

/// Fails the calling test in one line if it does not run as root.
///
/// # Panics
/// Without root.
pub fn needs_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "root is missing: this test mounts; run it as root, or leave it out with `cargo xtask test --fast`"
    );
}

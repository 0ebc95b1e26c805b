//! The check for a VM with another kernel, which tests with the prefix `on_other_kernel_` need.

/// Set in the VMs of `cargo xtask vm`.
const VM: &str = "WASMOUNT_VM";

/// Fails the calling test in one line if it does not run in a VM.
///
/// # Panics
/// Outside of one.
pub fn needs_other_kernel() {
    assert!(
        std::env::var_os(VM).is_some(),
        "another kernel is missing: this test runs in a VM, by `cargo xtask test`, or alone by `cargo xtask vm -- PROGRAM NAME`"
    );
}

//! The only unsafe code of the host, one file for each subject, each with a safe interface: `mount_setattr(2)`, project quotas, loop devices,
//! expansion of xfs, extents of files, freezing, leases, mount namespaces, identities of NVMe namespaces, keys for the kernel, programs that die
//! with their parent and inherit no descriptors from it, the mapping of compiled components.
//!
//! Calls that rustix wraps safely do not belong here, and neither do volumes, paths or policy. Structures and numbers come from `linux-raw-sys` or
//! `libc` if these define them.

#![allow(unsafe_code, reason = "this crate is where the host keeps it")]
#![deny(clippy::undocumented_unsafe_blocks)]

#[cfg(feature = "component-mapping")]
pub mod component;
pub mod fiemap;
pub mod freeze;
pub mod keyring;
pub mod lease;
pub mod loop_device;
pub mod mount_setattr;
pub mod namespace;
pub mod nvme;
pub mod program;
pub mod quota;
pub mod xfs;

use rustix::io::Errno;

/// The result of a function of `libc`, or its error number. Must be called before any other call can fail.
fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result >= 0 {
        return Ok(result);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

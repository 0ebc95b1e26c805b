//! The only unsafe code of the host, one file a subject, each with a safe face: `mount_setattr(2)`, project quotas, loop devices, growing of
//! xfs, extents of files, freezing, children that die with their parent and get nothing of it, the mapping of compiled components.
//!
//! A call that rustix wraps safely has no place here, and no volume, path or policy. Structures and numbers come from `linux-raw-sys` or `libc`, where these have them.

#![allow(unsafe_code, reason = "this crate is where the host keeps it")]
#![deny(clippy::undocumented_unsafe_blocks)]

pub mod child;
#[cfg(feature = "component-mapping")]
pub mod component;
pub mod fiemap;
pub mod freeze;
pub mod loop_device;
pub mod mount_setattr;
pub mod quota;
pub mod xfs;

use rustix::io::Errno;

/// What a function of `libc` answered, or the error that it left behind. To be called before anything else can fail.
fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result >= 0 {
        return Ok(result);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

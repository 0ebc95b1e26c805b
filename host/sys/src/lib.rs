//! The only unsafe code of the host, one file a subject, each with a safe face: `mount_setattr(2)`, project quotas, the mapping of compiled
//! components.
//!
//! It is apart so that every `unsafe` can be read in one sitting; a call that rustix wraps safely has no place here. It must not know what
//! the calls are for: no volume, no path, no policy.

#![allow(unsafe_code, reason = "this crate is where the host keeps it")]
#![deny(clippy::undocumented_unsafe_blocks)]

#[cfg(feature = "component-mapping")]
pub mod component;
pub mod mount_setattr;
pub mod quota;

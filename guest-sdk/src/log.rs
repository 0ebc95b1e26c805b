//! Lines in the host's log, with fields.
//!
//! The host adds driver, version and request id, limits size and rate, and redacts the values of the call's secrets. Nevertheless, never log a
//! secret.
//!
//! ```
//! use wasmount_guest::log;
//!
//! log::info("volume created", &[("size", "1073741824")]);
//! ```

use crate::attributes;
use crate::imports;

pub use crate::bindings::imports::wasmount::csi::call::Level;

/// Steps that help to find a bug.
pub fn trace(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Trace, message, fields);
}

/// Decisions and their reasons.
pub fn debug(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Debug, message, fields);
}

/// Events that an administrator wants to find later.
pub fn info(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Info, message, fields);
}

/// A success that the administrator should look into.
pub fn warn(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Warn, message, fields);
}

/// A failure. The host already logs the error that the call returns.
pub fn error(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Error, message, fields);
}

/// A line of any level.
pub fn at(level: Level, message: impl AsRef<str>, fields: &[(&str, &str)]) {
    imports::call::log(level, message.as_ref(), &attributes::owned(fields));
}

//! Lines in the host's log, with fields. Apart because it is the one thing that every backend does and no service answers with.
//!
//! The host adds driver, version and request id, caps size and rate, and blots out the values of the call's secrets; still, never log a
//! secret.
//!
//! ```
//! use wasmount_guest::log;
//!
//! log::info("volume created", &[("size", "1073741824")]);
//! ```

use crate::imports;

pub use crate::bindings::imports::wasmount::csi::call::Level;

/// Steps that help to find a bug.
pub fn trace(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Trace, message, fields);
}

/// Decisions and what they rest on.
pub fn debug(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Debug, message, fields);
}

/// What an administrator wants to find later.
pub fn info(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Info, message, fields);
}

/// Worked, but the administrator should look.
pub fn warn(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Warn, message, fields);
}

/// Did not work. The error that the call answers is logged by the host already.
pub fn error(message: impl AsRef<str>, fields: &[(&str, &str)]) {
    at(Level::Error, message, fields);
}

/// A line of any level.
pub fn at(level: Level, message: impl AsRef<str>, fields: &[(&str, &str)]) {
    let fields: Vec<(String, String)> = fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    imports::call::log(level, message.as_ref(), &fields);
}

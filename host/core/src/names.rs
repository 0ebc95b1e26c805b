//! Identifiers and paths as received: opaque, non-empty, bounded. Each has its own type, so that no two can be mixed up. All parts of the host use
//! them.
//!
//! Incoming identifiers are accepted leniently (real ones exceed the specification's 128 bytes, Azure's reach 170); identifiers from a plugin are
//! checked strictly where they are returned.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// Longest incoming identifier, in bytes. The specification says 128 ("Size Limits"); clients send more.
pub const INCOMING_IDENTIFIER_BYTES: usize = 1024;
/// Longest identifier that a plugin may return, in bytes (CSI specification, "Size Limits").
pub const PLUGIN_IDENTIFIER_BYTES: usize = 128;
/// Longest requested name, in bytes (CSI specification, "Size Limits").
pub const REQUESTED_NAME_BYTES: usize = 128;
/// Longest node identifier, in bytes (CSI specification, `NodeGetInfoResponse.node_id`).
pub const NODE_IDENTIFIER_BYTES: usize = 256;
/// Longest path, in bytes: `PATH_MAX` without its NUL.
pub const PATH_BYTES: usize = 4095;
/// Longest driver name, in bytes (CSI specification, `GetPluginInfoResponse.name`).
pub const DRIVER_NAME_BYTES: usize = 63;

/// Why a string was rejected. The message never repeats the string: it may be 4 MiB long, or secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct InvalidField {
    /// The name of the field, as CSI spells it.
    what: &'static str,
    /// The problem, as the end of a sentence.
    pub problem: Cow<'static, str>,
}

impl InvalidField {
    /// The string violates a rule, which is the end of a sentence.
    pub fn rule(what: &'static str, problem: impl Into<Cow<'static, str>>) -> Self {
        let problem = problem.into();
        Self { what, problem }
    }

    /// A required field is empty.
    pub fn empty(what: &'static str) -> Self {
        Self::rule(what, "is empty")
    }
}

/// Checks the rules of every identifier: not empty, at most `limit` bytes, no NUL.
pub fn check_identifier(what: &'static str, text: &str, limit: usize) -> Result<(), InvalidField> {
    if text.is_empty() {
        return Err(InvalidField::empty(what));
    }
    check_length(what, text.len(), limit)?;
    check_no_nul(what, text)
}

/// Checks that a field has at most `limit` bytes.
pub(crate) fn check_length(
    what: &'static str,
    length: usize,
    limit: usize,
) -> Result<(), InvalidField> {
    if length > limit {
        let problem = format!("is {length} bytes long, at most {limit} are allowed");
        return Err(InvalidField::rule(what, problem));
    }
    Ok(())
}

/// Checks that a string is one for the kernel too.
pub(crate) fn check_no_nul(what: &'static str, text: &str) -> Result<(), InvalidField> {
    if text.contains('\0') {
        return Err(InvalidField::rule(what, "contains a NUL byte"));
    }
    Ok(())
}

/// No control character but tab, line feed and carriage return (CSI specification, `CreateVolumeRequest.name`).
fn without_banned_characters(what: &'static str, name: &str) -> Result<(), InvalidField> {
    let is_banned = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if name.contains(is_banned) {
        return Err(InvalidField::rule(what, "contains a control character"));
    }
    Ok(())
}

/// A checked string: every source, including deserialisation, uses its `parse`.
macro_rules! checked_string {
    ($(#[$doc:meta])* $name:ident, $text:ident => $parse:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The string in its own spelling.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Converts into a plain string.
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidField;
            fn try_from($text: String) -> Result<Self, InvalidField> {
                $parse
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> String {
                text.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $limit:expr $(, $rule:ident)?) => {
        checked_string!($(#[$doc])* $name, text => Self::parse(stringify!($name), text));

        impl $name {
            /// Takes the string unchanged; `what` names the field in the error.
            pub fn parse(what: &'static str, text: impl Into<String>) -> Result<Self, InvalidField> {
                let text = text.into();
                check_identifier(what, &text, $limit)?;
                $($rule(what, &text)?;)?
                Ok(Self(text))
            }
        }
    };
}

identifier!(
    /// A volume, as its backend named it.
    VolumeId, INCOMING_IDENTIFIER_BYTES
);
identifier!(
    /// A snapshot, as its backend named it.
    SnapshotId, INCOMING_IDENTIFIER_BYTES
);
identifier!(
    /// A group of snapshots, as its backend named it.
    GroupSnapshotId, INCOMING_IDENTIFIER_BYTES
);
identifier!(
    /// A node, as `NodeGetInfo` answered there.
    NodeId, NODE_IDENTIFIER_BYTES
);
identifier!(
    /// The client's name for the object to create: the idempotency key of the Create calls.
    RequestedName,
    REQUESTED_NAME_BYTES,
    without_banned_characters
);
checked_string!(
    /// A path of the node. Only the mounter opens it, below its path roots.
    ///
    /// An absolute path is kept in its shortest spelling, so that claims, journal and figures use one string for one place. The normalisation never
    /// changes the target: `.`, `..` and relative paths stay, for the mounter to reject.
    NodePath, path => Self::parse("path", path)
);

impl NodePath {
    /// Takes a client's path; `what` names the field in the error.
    pub fn parse(what: &'static str, path: impl Into<String>) -> Result<Self, InvalidField> {
        let path = path.into();
        check_identifier(what, &path, PATH_BYTES)?;
        Ok(Self(shortest_spelling(path)))
    }

    /// Whether both are the same path, or one lies in the other, by their spelling.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (one, other) = (Path::new(&self.0), Path::new(&other.0));
        one.starts_with(other) || other.starts_with(one)
    }
}

checked_string!(
    /// The name of a CSI driver: domain name notation, at most 63 bytes.
    DriverName, name => Self::parse(name)
);

impl DriverName {
    /// Letters, digits, `-` and `.`, beginning and ending with a letter or digit (CSI specification, `GetPluginInfoResponse.name`). That it
    /// can also be a file name follows from the rule: there is no `/`, and `.` cannot begin it.
    pub fn parse(name: impl Into<String>) -> Result<Self, InvalidField> {
        let name = name.into();
        let what = "driverName";
        check_identifier(what, &name, DRIVER_NAME_BYTES)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if !name.chars().all(allowed) {
            return Err(InvalidField::rule(
                what,
                "contains something else than letters, digits, `-` and `.`",
            ));
        }
        let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        if !end(name.chars().next()) || !end(name.chars().last()) {
            return Err(InvalidField::rule(
                what,
                "begins or ends with something else than a letter or digit",
            ));
        }
        Ok(Self(name))
    }
}

/// Whether a text consists of letters, digits and these marks, with a letter or digit at both ends: a label of Kubernetes, or a part of one.
pub fn is_word(text: &str, most_bytes: usize, marks: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || marks.as_bytes().contains(byte);
    bytes.len() <= most_bytes
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(is_allowed)
}

/// An absolute path with single slashes and none at its end; to the kernel the same (path_resolution(7)).
fn shortest_spelling(path: String) -> String {
    if !path.starts_with('/') {
        return path;
    }
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests;

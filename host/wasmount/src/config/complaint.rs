//! An error in a document, as one line that an editor can jump to.
//!
//! It names keys and rules, never values: a password in the wrong place must not reach a log.

use std::fmt;
use std::path::PathBuf;
use wasmount_core::document::KeyPath;

/// `file:line: key: what is wrong and what would be right`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The document.
    pub(crate) file: PathBuf,
    /// The line of the error, if there is one.
    pub(crate) line: Option<u64>,
    /// The key with the error, if there is one.
    pub(crate) key: Option<KeyPath>,
    /// The message.
    pub(crate) reason: String,
}

/// All errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Complaints(pub(crate) Vec<Complaint>);

impl Complaints {
    /// All errors in one line, for a log or a status.
    pub(crate) fn in_one_line(&self) -> String {
        self.joined("; ")
    }

    fn joined(&self, separator: &str) -> String {
        let all: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        all.join(separator)
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if let Some(key) = &self.key {
            write!(f, " {key}:")?;
        }
        write!(f, " {}", self.reason)
    }
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined("\n"))
    }
}

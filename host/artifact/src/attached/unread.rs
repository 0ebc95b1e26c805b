//! Something beside an artifact that could not be had, and why, in few words: the refusal that names it goes into logs and Events, where a registry's
//! whole error would hide the rest.

use crate::error::RegistryError;
use std::fmt;

/// What was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    place: String,
    error: RegistryError,
}

impl Unread {
    pub(super) fn new(place: String, error: RegistryError) -> Self {
        Self { place, error }
    }

    /// All that is known of why.
    pub(super) fn error(&self) -> &RegistryError {
        &self.error
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.place)?;
        match &self.error {
            RegistryError::NotFound { .. } => write!(f, "is not there"),
            RegistryError::WrongDigest { got, .. } => write!(f, "came with the digest {got}"),
            RegistryError::WrongSize { wanted, got, .. } => {
                write!(f, "has {got} bytes, and {wanted} are named")
            }
            RegistryError::TooLarge { most, .. } => {
                write!(f, "is larger than {most} bytes, the most that is read")
            }
            RegistryError::Truncated { got, .. } => write!(f, "ended after {got} bytes"),
            RegistryError::Malformed { reason, .. } => write!(f, "is not well-formed: {reason}"),
            error => write!(f, "cannot be had: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_passed_over_is_named_with_its_fault() {
        let what = || "a signature".to_owned();
        for (error, words) in [
            (
                RegistryError::NotFound {
                    what: what(),
                    host: "r".to_owned(),
                },
                "the tag x is not there",
            ),
            (
                RegistryError::WrongSize {
                    what: what(),
                    wanted: 7,
                    got: 9,
                },
                "the tag x has 9 bytes, and 7 are named",
            ),
            (
                RegistryError::TooLarge {
                    what: what(),
                    most: 65_536,
                },
                "the tag x is larger than 65536 bytes, the most that is read",
            ),
        ] {
            let unread = Unread::new("the tag x".to_owned(), error);
            assert_eq!(unread.to_string(), words);
        }
    }
}

//! The digest of bytes, in the format of the OCI image specification.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use wasmount_core::document::{DIGEST_PREFIX, is_digest};

/// `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest(String);

/// Not a digest of the supported kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not `sha256:` and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest(String);

impl Digest {
    /// Parses a digest.
    pub fn parse(text: &str) -> Result<Self, InvalidDigest> {
        if is_digest(text) {
            return Ok(Self(text.to_owned()));
        }
        // Untrusted text may be long: this much is quoted to find it.
        const QUOTED_CHARACTERS: usize = 80;
        Err(InvalidDigest(
            text.chars().take(QUOTED_CHARACTERS).collect(),
        ))
    }

    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let hex = hex::encode(Sha256::digest(bytes));
        Self(format!("{DIGEST_PREFIX}{hex}"))
    }

    /// The digest with `sha256:`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digits alone.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix(DIGEST_PREFIX).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of no bytes (FIPS 180-4).
    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn bytes_have_the_digest_of_the_standard() {
        assert_eq!(Digest::of(b"").as_str(), EMPTY);
        assert_eq!(Digest::parse(EMPTY).unwrap(), Digest::of(b""));
        assert_ne!(Digest::of(b"a"), Digest::of(b""));
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        let upper = EMPTY.to_uppercase();
        for text in ["", "sha256:", "sha512:00", &EMPTY[..70], upper.as_str()] {
            assert!(Digest::parse(text).is_err(), "{text}");
        }
    }
}

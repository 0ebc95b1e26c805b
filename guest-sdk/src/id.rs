//! Ids derived from names. A client repeats `CreateVolume` with the same name until it gets an answer, so the same name must give the same id. A name
//! is not an id: it may have 128 bytes and any character.

use crate::error::Error;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Hexadecimal digits of a SHA-256 hash.
const HASH_DIGITS: usize = 64;

/// Longest name that [`readable`] keeps, such as `snapshot-` and a UUID: an id may be made of two, and has at most 128 bytes.
const READABLE_BYTES: usize = 45;
/// Digits of the hash of any other name: 128 bits.
const READABLE_DIGITS: usize = 32;
/// Before such a hash; no name that is kept begins with it.
const HASHED: &str = "x";

/// The id of a name: `<prefix>-<hash>`, safe as the name of a directory, a bucket or a dataset. Two names never share an id. With a prefix of up to
/// 63 bytes it stays within CSI's limit of 128.
pub fn from_name(prefix: &str, name: &str) -> String {
    let mut id = format!("{prefix}-");
    for byte in Sha256::digest(name) {
        // Writing to a `String` cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// A name for a storage system that shows names to people: `<prefix><name>`, if the name has at most 45 bytes of letters, digits, `-`, `_` and `.`, and
/// otherwise the prefix and a hash of the name. Two names never share one. The prefix should be made of the same characters.
///
/// ```
/// use wasmount_guest::id;
///
/// assert_eq!(id::readable("csi-vol-", "pvc-1"), "csi-vol-pvc-1");
/// assert!(id::readable("csi-vol-", "a/b").starts_with("csi-vol-x-"));
/// ```
pub fn readable(prefix: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_short = (1..=READABLE_BYTES).contains(&name.len());
    let is_directory = matches!(name, "." | "..");
    if is_short && !is_directory && name.chars().all(is_plain) && !name.starts_with(HASHED) {
        return format!("{prefix}{name}");
    }
    let hash = from_name(HASHED, name);
    let hash = hash.get(..HASHED.len() + 1 + READABLE_DIGITS);
    format!("{prefix}{}", hash.unwrap_or_default())
}

/// Whether [`from_name`] can have returned this id. Ids are sent by clients: one that was not created here may be `../../etc`.
pub fn is_from_name(prefix: &str, id: &str) -> bool {
    id.strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|hash| {
            hash.len() == HASH_DIGITS
                && hash
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
}

/// Rejects an id that [`from_name`] cannot have returned, with `not-found`: no volume can have it.
pub fn must_be_from_name(prefix: &str, id: &str) -> Result<(), Error> {
    if is_from_name(prefix, id) {
        return Ok(());
    }
    Err(Error::not_found(
        "this driver makes no such ids: nothing has it",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_name_always_gives_the_same_safe_id() {
        assert_eq!(
            from_name("vol", "pvc-1"),
            "vol-f2868e1aa7cab669517cd9f5ab1b7957c0b92df38fef583267e34e1acc8253fe"
        );
        for name in ["a", "../../etc", "Ünïcode / and spaces", &"x".repeat(128)] {
            let id = from_name("vol", name);
            assert_eq!(id, from_name("vol", name));
            assert!(is_from_name("vol", &id), "{id}");
            assert_eq!(must_be_from_name("vol", &id), Ok(()));
            assert!(id.len() <= 128);
        }
        assert_ne!(from_name("vol", "a"), from_name("vol", "b"));
    }

    #[test]
    fn a_foreign_id_is_distinguished() {
        let id = from_name("vol", "a");
        for other in [
            "",
            "vol-",
            "vol-..",
            "../../etc",
            &id.to_uppercase(),
            &format!("{id}0"),
            &id.replace("vol", "snap"),
        ] {
            assert!(!is_from_name("vol", other), "{other}");
            let refused = must_be_from_name("vol", other).map_err(|error| error.code);
            assert_eq!(refused, Err(Code::NotFound), "{other}");
        }
    }
}

//! Marks of secrets: a version recognises its secrets by a mark without storing them.
//!
//! HMAC with SHA-256 (RFC 2104), under a random key that only root can read.

use ring::hmac;
use rustix::rand::{GetRandomFlags, getrandom};
use wasmount_core::secrets::Secrets;

/// As long as its output (RFC 2104, section 3).
pub(crate) const KEY_BYTES: usize = 32;

/// A key. It has no `Debug`, which would show it.
#[derive(Clone)]
pub(crate) struct Key(pub(crate) [u8; KEY_BYTES]);

impl Key {
    pub(crate) fn random() -> Self {
        let mut bytes = [0; KEY_BYTES];
        // Requests up to 256 bytes are filled completely, and fail only before the machine has any entropy (getrandom(2)).
        let filled = getrandom(&mut bytes, GetRandomFlags::empty());
        if filled.is_err() {
            tracing::error!(
                "the kernel has no random numbers: fingerprints of secrets can be guessed"
            );
        }
        Self(bytes)
    }

    /// The mark is the same for the same names and values, in any order.
    pub(crate) fn mark(&self, secrets: &Secrets) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut mark = hmac::Context::with_key(&key);
        for name in secrets.names() {
            for part in [name, secrets.get(name).unwrap_or_default()] {
                // The length first, so that different sets never give the same message.
                mark.update(&(part.len() as u64).to_le_bytes());
                mark.update(part.as_bytes());
            }
        }
        hex::encode(mark.sign())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(pairs: &[(&str, &str)]) -> Secrets {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn a_mark_is_of_all_names_and_values_and_of_the_key() {
        let key = Key::random();
        let mark = |pairs: &[(&str, &str)]| key.mark(&secrets(pairs));
        let one = mark(&[("a", "b"), ("c", "d")]);
        assert_eq!(one, mark(&[("c", "d"), ("a", "b")]));
        for other in [
            &[("a", "b"), ("c", "e")][..],
            &[("a", "b"), ("d", "d")],
            &[("a", "b")],
            &[("a", "bc"), ("", "d")],
        ] {
            assert_ne!(one, mark(other), "{other:?}");
        }
        assert_ne!(one, Key::random().mark(&secrets(&[("a", "b"), ("c", "d")])));
    }
}

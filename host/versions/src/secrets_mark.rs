//! Marks of secrets: by them a version knows its secrets again without holding them. Apart because it is pure, and because a plain digest would
//! not do: whoever reads one can try the passwords of a list.
//!
//! HMAC with SHA-256 (RFC 2104), under a random key that only root can read.

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};
use std::fmt;
use wasmount_core::secrets::Secrets;

/// As long as what it makes (RFC 2104, section 3).
pub(crate) const KEY_BYTES: usize = 32;
/// Of SHA-256 (FIPS 180-4).
const BLOCK_BYTES: usize = 64;
const INNER: u8 = 0x36;
const OUTER: u8 = 0x5c;

/// A key. Its `Debug` shows nothing of it.
#[derive(Clone)]
pub(crate) struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
}

impl From<[u8; KEY_BYTES]> for Key {
    fn from(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }
}

impl Key {
    pub(crate) fn random() -> Self {
        let mut bytes = [0; KEY_BYTES];
        // Up to 256 bytes come whole, and fail only before the machine has any entropy (getrandom(2)).
        let filled = getrandom(&mut bytes, GetRandomFlags::empty());
        if filled.is_err() {
            tracing::error!("the kernel has no random numbers: marks of secrets can be guessed");
        }
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same for the same names and values, whatever their order was.
    pub(crate) fn mark(&self, secrets: &Secrets) -> String {
        let mut message = Vec::new();
        for name in secrets.names() {
            for part in [name, secrets.get(name).unwrap_or_default()] {
                // Its length first, so that no two sets are one message.
                message.extend((part.len() as u64).to_le_bytes());
                message.extend(part.as_bytes());
            }
        }
        let mark = hmac(&self.0, &message);
        message.fill(0);
        mark.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// `key` is at most a block.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let padded = |with: u8| -> Vec<u8> {
        let zeros = std::iter::repeat(&0);
        let bytes = key.iter().chain(zeros).take(BLOCK_BYTES);
        bytes.map(|byte| byte ^ with).collect()
    };
    let inner = Sha256::new()
        .chain_update(padded(INNER))
        .chain_update(message)
        .finalize();
    let outer = Sha256::new()
        .chain_update(padded(OUTER))
        .chain_update(inner)
        .finalize();
    outer.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn secrets(pairs: &[(&str, &str)]) -> Secrets {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn the_vectors_of_rfc_4231_hold() {
        for (key, data, expected) in [
            (
                [0x0b; 20].to_vec(),
                b"Hi There".to_vec(),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?".to_vec(),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                [0xaa; 20].to_vec(),
                [0xdd; 50].to_vec(),
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
        ] {
            assert_eq!(hex(&hmac(&key, &data)), expected);
        }
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

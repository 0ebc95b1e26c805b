//! Public keys: ECDSA on P-256 with SHA-256, which is what cosign makes, and Ed25519.

use super::{KeyError, pem_block};
use crate::digest::Digest;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ED25519_PUBLIC_KEY_LEN, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde::{Deserialize, Serialize};

/// The prefix before the point of a P-256 key in its SubjectPublicKeyInfo: id-ecPublicKey, prime256v1, a bit string of 65 bytes (RFC 5480, section
/// 2). DER has one encoding of each value, so the whole prefix is compared.
const P256_PREFIX: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Bytes of a point that is not compressed: its first byte is 4 (SEC 1, section 2.3.3).
const P256_POINT_BYTES: usize = 65;
const UNCOMPRESSED: u8 = 4;
/// The same prefix for Ed25519 (RFC 8410, section 4).
const ED25519_PREFIX: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// The PEM label of a public key.
const LABEL: &str = "PUBLIC KEY";
/// The supported kinds.
const SUPPORTED: &str = "ECDSA on P-256 and Ed25519";

/// A key that verifies signatures: a SubjectPublicKeyInfo of a supported kind, as DER.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>")]
pub struct VerifyingKey(Vec<u8>);

impl VerifyingKey {
    /// Parses PEM, `-----BEGIN PUBLIC KEY-----`.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let (label, content) = pem_block(text)?;
        match label.as_str() {
            LABEL => Self::from_der(&content),
            private if private.ends_with("PRIVATE KEY") => Err(KeyError::AnotherKind {
                label,
                expected: "a public key; a private one is never given to a host: name the public key of the pair",
            }),
            _ => Err(KeyError::AnotherKind {
                label,
                expected: "a public key (`-----BEGIN PUBLIC KEY-----`)",
            }),
        }
    }

    /// Parses a SubjectPublicKeyInfo.
    fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        match parts(der) {
            Some(_) => Ok(Self(der.to_vec())),
            None => Err(KeyError::AnotherAlgorithm {
                expected: SUPPORTED,
            }),
        }
    }

    /// The key of a P-256 point.
    pub(super) fn p256(point: &[u8]) -> Self {
        Self([P256_PREFIX, point].concat())
    }

    /// SHA-256 of the key as DER, by which users and logs identify keys: `openssl pkey -pubin -outform der | sha256sum`.
    pub fn fingerprint(&self) -> String {
        Digest::of(&self.0).to_string()
    }

    /// Whether this key signed these bytes.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        parts(&self.0).is_some_and(|(algorithm, key)| {
            let key = UnparsedPublicKey::new(algorithm, key);
            key.verify(message, signature).is_ok()
        })
    }
}

/// The algorithm of a SubjectPublicKeyInfo, and the bytes of its key; none: it is not supported.
fn parts(der: &[u8]) -> Option<(&'static dyn VerificationAlgorithm, &[u8])> {
    if let Some(point) = der.strip_prefix(P256_PREFIX)
        && point.len() == P256_POINT_BYTES
        && point.first() == Some(&UNCOMPRESSED)
    {
        return Some((&ECDSA_P256_SHA256_ASN1, point));
    }
    match der.strip_prefix(ED25519_PREFIX) {
        Some(key) if key.len() == ED25519_PUBLIC_KEY_LEN => Some((&ED25519, key)),
        _ => None,
    }
}

impl TryFrom<Vec<u8>> for VerifyingKey {
    type Error = KeyError;

    fn try_from(der: Vec<u8>) -> Result<Self, KeyError> {
        Self::from_der(&der)
    }
}

#[cfg(test)]
impl VerifyingKey {
    /// The key as PEM.
    pub(crate) fn to_pem(&self) -> String {
        super::pem_of(LABEL, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    /// RFC 8032, section 7.1, test 3.
    const ED25519_KEY: [u8; 32] = [
        0xfc, 0x51, 0xcd, 0x8e, 0x62, 0x18, 0xa1, 0xa3, 0x8d, 0xa4, 0x7e, 0xd0, 0x02, 0x30, 0xf0,
        0x58, 0x08, 0x16, 0xed, 0x13, 0xba, 0x33, 0x03, 0xac, 0x5d, 0xeb, 0x91, 0x15, 0x48, 0x90,
        0x80, 0x25,
    ];
    const ED25519_MESSAGE: [u8; 2] = [0xaf, 0x82];
    const ED25519_SIGNATURE: &str =
        "YpHWV97sJAJIJ+acOr4BowzlSKKEdDpEXjaA19taw6wY/5tTjRbykK5n92CYTcZZSnwV6XFu0o3AJ77O6h7ECg==";

    fn pem(label: &str, bytes: &[u8]) -> String {
        crate::signature::pem_of(label, bytes)
    }

    #[test]
    fn an_ed25519_key_verifies_what_its_rfc_signs_and_nothing_else() {
        let text = pem(LABEL, &[ED25519_PREFIX, &ED25519_KEY].concat());
        let key = VerifyingKey::from_pem(&text).unwrap();
        let signature = STANDARD.decode(ED25519_SIGNATURE).unwrap();
        assert!(key.verifies(&ED25519_MESSAGE, &signature));
        assert!(!key.verifies(&[0xaf, 0x83], &signature));
        assert!(!key.verifies(&ED25519_MESSAGE, &[]));
        assert_eq!(key.to_pem(), text);
    }

    #[test]
    fn a_key_survives_postcard_like_forms_and_keeps_its_fingerprint() {
        let key = VerifyingKey::p256(&[UNCOMPRESSED; P256_POINT_BYTES]);
        let again = VerifyingKey::try_from(key.0.clone()).unwrap();
        assert_eq!(again, key);
        assert_eq!(VerifyingKey::from_pem(&key.to_pem()).unwrap(), key);
        assert_eq!(again.fingerprint(), key.fingerprint());
        assert!(key.fingerprint().starts_with("sha256:"));
    }

    #[test]
    fn what_is_no_known_public_key_is_refused_with_what_it_is() {
        let p256 = [P256_PREFIX, &[UNCOMPRESSED; P256_POINT_BYTES]].concat();
        let mut compressed = p256.clone();
        compressed[P256_PREFIX.len()] = 2;
        let other = KeyError::AnotherAlgorithm {
            expected: SUPPORTED,
        };
        for der in [&p256[..p256.len() - 1], &compressed, b"", &[0x30, 0x82]] {
            assert_eq!(
                VerifyingKey::from_pem(&pem(LABEL, der)).unwrap_err(),
                other,
                "{der:?}"
            );
        }
        for (label, expected) in [
            (
                "EC PRIVATE KEY",
                "holds `EC PRIVATE KEY`, not a public key; a private one is never",
            ),
            (
                "CERTIFICATE",
                "holds `CERTIFICATE`, not a public key (`-----BEGIN",
            ),
        ] {
            let refused = VerifyingKey::from_pem(&pem(label, &p256)).unwrap_err();
            assert!(refused.to_string().starts_with(expected), "{refused}");
        }
    }
}

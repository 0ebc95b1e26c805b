//! Evidence of a signature: one signature, or several over the same bytes, in any of the supported formats.
//!
//! Unreadable data is distinguished from a wrong signature: it is not evidence.

use super::{SIGNATURE_BYTES, SIGNATURES_MAX, VerifyingKey};
use crate::digest::Digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Bytes of an Ed25519 signature, which has no encoding around it.
const ED25519_SIGNATURE_BYTES: usize = 64;
/// The tag of an ASN.1 sequence, in which ECDSA encodes a signature (RFC 3279, section 2.2.3).
const SEQUENCE: u8 = 0x30;

/// The bytes that should be signed: a component's, or its manifest's.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    bytes: &'a [u8],
    digest: String,
}

/// A well-formed signature, and what it covers. It is not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    signed: Signed,
    signatures: Vec<Vec<u8>>,
}

/// The bytes that were signed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Signed {
    /// The bytes of the subject itself.
    Subject,
    /// These bytes, which name subjects by digest.
    Statement { bytes: Vec<u8>, of: Vec<String> },
}

/// Why data is not evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Larger than a signature may be.
    #[error("has {0} bytes, and a signature at most {SIGNATURE_BYTES}")]
    TooLarge(usize),
    /// Not the bytes of a signature.
    #[error("is no signature in base64; was it cut off?")]
    NotASignature,
    /// The payload is not what cosign signs.
    #[error("is no payload of cosign: {0}")]
    Payload(String),
    /// The bundle is of an unknown kind.
    #[error("is no Sigstore bundle of a key's signature: {0}")]
    Bundle(String),
}

/// The result of checking a piece of evidence with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// The key signed the subject.
    Signed,
    /// The key signed something else: its description.
    Another(String),
    /// The key did not sign this.
    NotTheirs,
}

impl<'a> Subject<'a> {
    /// The subject of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            digest: Digest::of(bytes).to_string(),
        }
    }

    /// Its digest, `sha256:` and hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl Evidence {
    /// Reads a file as `cosign sign-blob` writes it: base64 of a signature over the subject's own bytes. Where several signers are required, the file
    /// has a line for each (cosign cannot read such a file).
    pub fn from_signature_file(bytes: &[u8]) -> Result<Self, Unreadable> {
        let bytes = bounded(bytes)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Unreadable::NotASignature)?;
        let lines: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect();
        if lines.is_empty() || lines.len() > SIGNATURES_MAX {
            return Err(Unreadable::NotASignature);
        }
        let signatures = lines.into_iter().map(signature);
        Ok(Self::of_subject(signatures.collect::<Result<_, _>>()?))
    }

    pub(super) fn of_subject(signatures: Vec<Vec<u8>>) -> Self {
        Self {
            signed: Signed::Subject,
            signatures,
        }
    }

    pub(super) fn of_statement(bytes: Vec<u8>, of: Vec<String>, signatures: Vec<Vec<u8>>) -> Self {
        Self {
            signed: Signed::Statement { bytes, of },
            signatures,
        }
    }

    /// Whether this key signed the subject.
    pub fn signs(&self, key: &VerifyingKey, subject: &Subject<'_>) -> bool {
        self.examine(key, subject) == Finding::Signed
    }

    /// Checks this evidence with a key. What the signed statement says counts only once the signature is verified.
    pub(super) fn examine(&self, key: &VerifyingKey, subject: &Subject<'_>) -> Finding {
        let bytes = match &self.signed {
            Signed::Subject => subject.bytes,
            Signed::Statement { bytes, .. } => bytes,
        };
        let mut signatures = self.signatures.iter();
        if !signatures.any(|signature| key.verifies(bytes, signature)) {
            return Finding::NotTheirs;
        }
        match &self.signed {
            Signed::Statement { of, .. } if !of.contains(&subject.digest) => {
                Finding::Another(of.join(", "))
            }
            Signed::Statement { .. } | Signed::Subject => Finding::Signed,
        }
    }
}

/// The same bytes, if they are within the bound.
pub(super) fn bounded(bytes: &[u8]) -> Result<&[u8], Unreadable> {
    match bytes.len() {
        0..=SIGNATURE_BYTES => Ok(bytes),
        length => Err(Unreadable::TooLarge(length)),
    }
}

/// Encodes a signature for files and annotations.
pub fn encoded(signature: &[u8]) -> String {
    STANDARD.encode(signature)
}

/// Decodes a signature from base64, and checks that it is complete.
pub(super) fn signature(encoded: &str) -> Result<Vec<u8>, Unreadable> {
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| Unreadable::NotASignature)?;
    let whole = match bytes.as_slice() {
        // A sequence of P-256 is never so long that its length needs more than this byte.
        [SEQUENCE, length, rest @ ..] => usize::from(*length) == rest.len(),
        _ => false,
    };
    if whole || bytes.len() == ED25519_SIGNATURE_BYTES {
        return Ok(bytes);
    }
    Err(Unreadable::NotASignature)
}

#[cfg(test)]
mod tests {
    use super::super::PrivateKey;
    use super::*;

    #[test]
    fn a_signature_file_speaks_of_the_bytes_that_were_signed() {
        let key = PrivateKey::generate().unwrap();
        let encoded = STANDARD.encode(key.sign(b"a component").unwrap());
        // Editors and `echo` append a newline.
        let file = format!("{encoded}\n");
        let evidence = Evidence::from_signature_file(file.as_bytes()).unwrap();
        let public = key.verifying_key();
        let subject = Subject::new(b"a component");
        assert_eq!(evidence.examine(&public, &subject), Finding::Signed);
        let changed = Subject::new(b"a cOmponent");
        assert_eq!(evidence.examine(&public, &changed), Finding::NotTheirs);
    }

    #[test]
    fn a_signature_file_may_have_a_line_for_each_of_several() {
        let keys = [
            PrivateKey::generate().unwrap(),
            PrivateKey::generate().unwrap(),
        ];
        let line = |key: &PrivateKey| STANDARD.encode(key.sign(b"a component").unwrap());
        let file = format!("{}\n{}\n", line(&keys[0]), line(&keys[1]));
        let evidence = Evidence::from_signature_file(file.as_bytes()).unwrap();
        let subject = Subject::new(b"a component");
        for key in &keys {
            assert!(evidence.signs(&key.verifying_key(), &subject));
        }
        let stranger = PrivateKey::generate().unwrap().verifying_key();
        assert!(!evidence.signs(&stranger, &subject));
        let crowd = format!("{}\n", line(&keys[0])).repeat(SIGNATURES_MAX + 1);
        let refused = Evidence::from_signature_file(crowd.as_bytes()).unwrap_err();
        assert_eq!(refused, Unreadable::NotASignature);
    }

    #[test]
    fn truncation_is_distinguished_from_a_foreign_signature() {
        let key = PrivateKey::generate().unwrap();
        let signature = key.sign(b"a component").unwrap();
        for cut in [0, 1, signature.len() / 2, signature.len() - 1] {
            let encoded = STANDARD.encode(&signature[..cut]);
            let read = Evidence::from_signature_file(encoded.as_bytes());
            assert_eq!(read.unwrap_err(), Unreadable::NotASignature, "{cut}");
        }
        let text = STANDARD.encode(&signature);
        let half = Evidence::from_signature_file(&text.as_bytes()[..text.len() / 2 - 1]);
        assert_eq!(half.unwrap_err(), Unreadable::NotASignature);
        let long = vec![b'A'; SIGNATURE_BYTES + 1];
        let read = Evidence::from_signature_file(&long);
        assert_eq!(read.unwrap_err(), Unreadable::TooLarge(SIGNATURE_BYTES + 1));
    }
}

//! Signatures in the formats of cosign 3 and of the Sigstore bundle 0.3: keys, evidence, and which signers a document requires.
//!
//! Input is bytes; output is bytes or a verdict. Only signatures by keys are read; certificates, transparency logs and time stamps are ignored.

mod bundle;
mod evidence;
mod judgement;
mod policy;
mod private_key;
mod public_key;
mod simple_signing;

pub use bundle::{BUNDLE_TYPE, is_bundle_type};
pub use evidence::{Evidence, Subject, Unreadable, encoded};
pub use judgement::{Gathered, Judgement, check};
pub use policy::{NamedKey, SignatureError, SignerKeys, SignerKeysError};
pub use private_key::{PrivateKey, PrivateKeyFile, SealedKey};
pub use public_key::VerifyingKey;
pub(crate) use simple_signing::SIGNATURE_ANNOTATION;
pub use simple_signing::payload;

use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Most signatures that are read in one place: a file, a manifest. A release has one or two; each is tried with every named key.
pub const SIGNATURES_MAX: usize = 32;
/// Largest signature with what is signed (payload or bundle), in bytes. A bundle with a log entry has about 10 KiB.
pub const SIGNATURE_BYTES: usize = 64 << 10;
/// Largest key file, in bytes. One of cosign has 653.
pub const KEY_BYTES: usize = 16 << 10;

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not PEM at all.
    #[error("is not PEM: {0}")]
    NotPem(&'static str),
    /// PEM of something else.
    #[error("holds `{label}`, not {expected}")]
    AnotherKind {
        /// The label of the PEM block.
        label: String,
        /// What is expected, and how to create it.
        expected: &'static str,
    },
    /// A key of another algorithm.
    #[error("is a key of another kind than {expected}; make one with `cosign generate-key-pair`")]
    AnotherAlgorithm {
        /// The supported kinds.
        expected: &'static str,
    },
    /// The encrypted form is not one that cosign writes.
    #[error("is encrypted in a way that is not cosign's: {0}; is the file complete?")]
    Sealed(&'static str),
    /// The password does not decrypt it.
    #[error("does not open with this password, or was changed")]
    WrongPassword,
    /// The system provides no random bytes.
    #[error("cannot be used: the system gives no random bytes")]
    NoRandomness,
}

/// The password of a private key, which may be empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// A password of these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a password")
    }
}

/// The file beside a component with base64 of its signature, as `cosign sign-blob --output-signature` writes it.
pub fn signature_file(component: &Path) -> PathBuf {
    component.with_added_extension("sig")
}

/// The file beside a component with its Sigstore bundle, as `cosign sign-blob --bundle` writes it.
pub fn bundle_file(component: &Path) -> PathBuf {
    component.with_added_extension("bundle")
}

/// Label and content of the only PEM block in a text; the content may be a secret.
fn pem_block(text: &str) -> Result<(String, Zeroizing<Vec<u8>>), KeyError> {
    let blocks = pem::parse_many(text);
    let mut blocks = blocks.map_err(|_| KeyError::NotPem("a block of it is damaged"))?;
    match (blocks.pop(), blocks.is_empty()) {
        (Some(block), true) => Ok((
            block.tag().to_owned(),
            Zeroizing::new(block.into_contents()),
        )),
        (Some(_), false) => Err(KeyError::NotPem(
            "it has more than one block; give one key a file",
        )),
        (None, _) => Err(KeyError::NotPem(
            "it has no block from `-----BEGIN ..-----` to `-----END ..-----`; is the file complete?",
        )),
    }
}

#[cfg(test)]
fn pem_of(label: &str, content: &[u8]) -> String {
    pem::encode_config(
        &pem::Pem::new(label, content),
        pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_password_shows_nothing() {
        let password = Password::new(b"hunter2".to_vec());
        assert_eq!(format!("{password:?}"), "a password");
        assert_ne!(password, Password::default());
    }

    #[test]
    fn a_suffix_comes_after_the_whole_name() {
        let file = Path::new("/plugins/nas.wasm");
        assert_eq!(signature_file(file), Path::new("/plugins/nas.wasm.sig"));
        assert_eq!(bundle_file(file), Path::new("/plugins/nas.wasm.bundle"));
    }

    #[test]
    fn what_is_encoded_is_read_whatever_its_length() {
        for length in [0, 1, 47, 48, 49, 96, 97, 500] {
            let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let text = pem_of("SOME KEY", &bytes);
            let (label, content) = pem_block(&format!("a remark\r\n{text}")).unwrap();
            assert_eq!((label.as_str(), &*content), ("SOME KEY", &bytes));
        }
    }

    #[test]
    fn what_is_no_single_block_is_rejected() {
        let whole = pem_of("KEY", b"12345");
        let twice = format!("{whole}{whole}");
        let cut = whole.split_once("-----END").unwrap().0.to_owned();
        for (text, message) in [
            ("ssh-ed25519 AAAA", "is the file complete?"),
            ("-----BEGIN KEY", "is the file complete?"),
            (cut.as_str(), "is the file complete?"),
            ("-----BEGIN KEY-----\n%%\n-----END KEY-----", "is damaged"),
            ("-----BEGIN A-----\n-----END B-----", "is damaged"),
            (&twice, "more than one block"),
        ] {
            let error = pem_block(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}

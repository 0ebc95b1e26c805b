//! Required signers: the keys that a document names, and the message for each way in which signatures may be missing.

use super::{KeyError, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wasmount_core::document::{PublicKey, Signers};

/// A key, and its name in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedKey {
    name: String,
    pub(super) key: VerifyingKey,
}

/// [`Signers`] with their keys read: the required signers; none if both lists are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignerKeys {
    pub(super) any_of: Vec<NamedKey>,
    pub(super) all_of: Vec<NamedKey>,
}

/// Why a key of a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SignerKeysError {
    /// The key file cannot be read.
    #[error("the public key {}: {reason}", .path.display())]
    File {
        /// The key file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The content is not a key.
    #[error("the public key {name} {source}")]
    Key {
        /// The name of the key.
        name: String,
        /// The reason.
        source: KeyError,
    },
}

/// Why signatures do not suffice. The message holds no secret, and may go to status, Events and logs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum SignatureError {
    /// There is no signature.
    #[error(
        "{digest} has no signature, and one by {wanted} is required; let its publisher sign it with `wasmount sign` or cosign"
    )]
    Unsigned {
        /// The digest of the component or manifest.
        digest: String,
        /// The required signers.
        wanted: String,
    },
    /// There are signatures, but none of a required signer.
    #[error(
        "none of the signatures found for {digest} ({found}) is by {wanted}{remarks}; either another key signed it, or it was changed after that: \
         fetch it again from a trusted source, or name the key of its signer"
    )]
    ByNobodyNamed {
        /// The digest of the component or manifest.
        digest: String,
        /// How many signatures there are.
        found: usize,
        /// The required signers.
        wanted: String,
        /// Remarks on other data; empty or with a leading separator.
        remarks: String,
    },
    /// Some of the required signers have signed, but not all.
    #[error(
        "{digest} is signed, but not by {missing}{remarks}, whose signatures are required too; let them sign it with `wasmount sign` or cosign"
    )]
    Missing {
        /// The digest of the component or manifest.
        digest: String,
        /// The signers that are missing.
        missing: String,
        /// Remarks on other data; empty or with a leading separator.
        remarks: String,
    },
    /// A named key has signed something else, and its signature was found here.
    #[error(
        "{signer} has signed {signed}, and this is {digest}: the signature was made for another version or moved here; sign this one"
    )]
    AnotherDigest {
        /// The digest of the component or manifest.
        digest: String,
        /// The signer.
        signer: String,
        /// What the key signed.
        signed: String,
    },
}

impl NamedKey {
    /// A key, and the name that users know: normally the path of its file.
    pub fn new(name: impl Into<String>, key: VerifyingKey) -> Self {
        Self {
            name: name.into(),
            key,
        }
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name and its fingerprint.
    pub(super) fn described(&self) -> String {
        format!("{} ({})", self.name, self.key.fingerprint())
    }
}

impl SignerKeys {
    /// Requires at least one of `any_of`, if there are any, and each of `all_of`.
    pub fn new(any_of: Vec<NamedKey>, all_of: Vec<NamedKey>) -> Self {
        Self { any_of, all_of }
    }

    /// The signers of a document. `read` returns the content of a file, at most [`super::KEY_BYTES`], or the reason why it cannot.
    pub fn of(
        signers: &Signers,
        read: impl Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> Result<Self, SignerKeysError> {
        let keys = |keys: &[PublicKey], list: &str| -> Result<Vec<_>, _> {
            let numbered = keys.iter().enumerate();
            numbered
                .map(|(index, key)| named(key, &format!("{list}[{index}]"), &read))
                .collect()
        };
        Ok(Self {
            any_of: keys(&signers.any_of, "anyOf")?,
            all_of: keys(&signers.all_of, "allOf")?,
        })
    }

    /// Whether no signature is required.
    pub fn is_empty(&self) -> bool {
        self.any_of.is_empty() && self.all_of.is_empty()
    }

    /// All keys: those of which one suffices, then the others.
    pub(super) fn named(&self) -> impl Iterator<Item = &NamedKey> {
        self.any_of.iter().chain(&self.all_of)
    }

    /// The required signers, for messages.
    pub(super) fn describe(&self) -> String {
        let described = |keys: &[NamedKey]| keys.iter().map(NamedKey::described).collect();
        let any: Vec<String> = described(&self.any_of);
        let all: Vec<String> = described(&self.all_of);
        match (any.is_empty(), all.is_empty()) {
            (_, true) => any.join(" or "),
            (true, false) => all.join(" and "),
            (false, false) => format!("{}, and {}", any.join(" or "), all.join(" and ")),
        }
    }
}

fn named(
    key: &PublicKey,
    place: &str,
    read: impl Fn(&Path) -> Result<Vec<u8>, String>,
) -> Result<NamedKey, SignerKeysError> {
    let (name, text) = match key {
        PublicKey::Inline(pem) => (place.to_owned(), pem.clone()),
        PublicKey::File(path) => {
            let failed = |reason| SignerKeysError::File {
                path: path.clone(),
                reason,
            };
            let bytes = read(path).map_err(failed)?;
            let text = String::from_utf8(bytes).map_err(|_| failed("is not text".to_owned()))?;
            (path.display().to_string(), text)
        }
    };
    match VerifyingKey::from_pem(&text) {
        Ok(key) => Ok(NamedKey { name, key }),
        Err(source) => Err(SignerKeysError::Key { name, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::PrivateKey;
    use super::*;

    #[test]
    fn the_keys_of_a_document_are_read_from_files_and_from_itself() {
        let key = PrivateKey::generate().unwrap().verifying_key();
        let signers = Signers {
            any_of: vec![PublicKey::File("/etc/keys/ann.pub".into())],
            all_of: vec![PublicKey::Inline(key.to_pem())],
        };
        let pem = key.to_pem().into_bytes();
        let keys = SignerKeys::of(&signers, |_| Ok(pem.clone())).unwrap();
        let expected = SignerKeys::new(
            vec![NamedKey::new("/etc/keys/ann.pub", key.clone())],
            vec![NamedKey::new("allOf[0]", key)],
        );
        assert_eq!(keys, expected);
        let json = serde_json::to_string(&keys).unwrap();
        assert_eq!(serde_json::from_str::<SignerKeys>(&json).unwrap(), keys);
        for (read, message) in [
            (
                Err("is missing".to_owned()),
                "the public key /etc/keys/ann.pub: is missing",
            ),
            (
                Ok(vec![0xff]),
                "the public key /etc/keys/ann.pub: is not text",
            ),
            (
                Ok(b"?".to_vec()),
                "the public key /etc/keys/ann.pub is not PEM: it has no block from `-----BEGIN ..-----` to `-----END ..-----`; is the file complete?",
            ),
        ] {
            let refused = SignerKeys::of(&signers, |_| read.clone()).unwrap_err();
            assert_eq!(refused.to_string(), message);
        }
    }
}

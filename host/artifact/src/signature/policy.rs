//! Whose signatures are wanted: the keys that a document names, and the words for each way in which they may be missing.

use super::{KeyError, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wasmount_core::document::{PublicKey, Signers};

/// A key, and what it is called in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedKey {
    name: String,
    key: VerifyingKey,
}

/// [`Signers`] with their keys read: whose signatures are required; none if both are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignerKeys {
    pub(super) any_of: Vec<NamedKey>,
    pub(super) all_of: Vec<NamedKey>,
}

/// Why a key of a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SignerKeysError {
    /// Its file.
    #[error("the public key {}: {reason}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// What stands there is no key.
    #[error("the public key {name} {source}")]
    Key {
        /// Which.
        name: String,
        /// Why.
        source: KeyError,
    },
}

/// Why signatures do not suffice. It says nothing that is secret, and may go to status, Events and logs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum SignatureError {
    /// There is no signature.
    #[error(
        "nobody has signed {digest}, and a signature by {wanted} is wanted; sign it with `wasmount sign` or cosign, where it comes from"
    )]
    Unsigned {
        /// What.
        digest: String,
        /// By whom it should be.
        wanted: String,
    },
    /// Signatures, and none is right.
    #[error(
        "none of the signatures found for {digest} ({found}) is by {wanted}{remarks}; either somebody else signed it, or it was changed after that: \
         get it anew from whom you trust, or name the key of who signed it"
    )]
    ByNobodyNamed {
        /// What.
        digest: String,
        /// How many signatures there are.
        found: usize,
        /// By whom one should be.
        wanted: String,
        /// What else was seen; empty or with a leading separator.
        remarks: String,
    },
    /// Some have signed, and not all who must.
    #[error(
        "{digest} is signed, but not by {missing}{remarks}, who must have signed it too; let them sign it with `wasmount sign` or cosign"
    )]
    Missing {
        /// What.
        digest: String,
        /// Who has not.
        missing: String,
        /// What else was seen; empty or with a leading separator.
        remarks: String,
    },
    /// A named key has signed something else, and its signature lies here.
    #[error(
        "{signer} has signed {signed}, and this is {digest}: the signature was made for another version or moved here; sign this one"
    )]
    AnotherDigest {
        /// What.
        digest: String,
        /// Who.
        signer: String,
        /// What they signed.
        signed: String,
    },
}

impl NamedKey {
    /// A key, and how people know it: the path of its file, as a rule.
    pub fn new(name: impl Into<String>, key: VerifyingKey) -> Self {
        Self {
            name: name.into(),
            key,
        }
    }

    /// How it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn key(&self) -> &VerifyingKey {
        &self.key
    }

    /// Its name, and what it is.
    pub(super) fn described(&self) -> String {
        format!("{} ({})", self.name, self.key.fingerprint())
    }
}

impl SignerKeys {
    /// One of `any_of` at least, if there are any, and each of `all_of`.
    pub fn new(any_of: Vec<NamedKey>, all_of: Vec<NamedKey>) -> Self {
        Self { any_of, all_of }
    }

    /// Those of a document. `read` gives what a file holds, of [`super::KEY_BYTES`] at most, or says why not.
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

    /// Whether anybody must have signed.
    pub fn is_empty(&self) -> bool {
        self.any_of.is_empty() && self.all_of.is_empty()
    }

    /// Whoever must have signed, in words.
    pub(super) fn wanted(&self) -> String {
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
        for (read, said) in [
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
                "the public key /etc/keys/ann.pub is not PEM: it has no block from `-----BEGIN ..-----` to `-----END ..-----`; is the file whole?",
            ),
        ] {
            let refused = SignerKeys::of(&signers, |_| read.clone()).unwrap_err();
            assert_eq!(refused.to_string(), said);
        }
    }
}

//! Whether what is there suffices: the keys that a document names against the signatures that were found. Apart because this is the decision,
//! and it is made from values alone.
//!
//! It does not know where keys and signatures came from.

use super::evidence::Finding;
use super::{Gathered, KeyError, Subject, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wasmount_core::document::{PublicKey, Signers};

/// A key, and what it is called in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedKey {
    name: String,
    key: VerifyingKey,
}

/// [`Signers`] with their keys read: whose signatures are needed. Both empty: nobody's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignerKeys {
    any_of: Vec<NamedKey>,
    all_of: Vec<NamedKey>,
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

    fn described(&self) -> String {
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
    fn wanted(&self) -> String {
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

/// Whether this was signed by whom it must be, and by which of the named keys it was. With no key named nobody is asked.
pub fn check(
    keys: &SignerKeys,
    subject: &Subject<'_>,
    gathered: &Gathered,
) -> Result<Vec<String>, SignatureError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let digest = || subject.digest().to_owned();
    if gathered.is_empty() {
        return Err(SignatureError::Unsigned {
            digest: digest(),
            wanted: keys.wanted(),
        });
    }
    let verdict = |named: &NamedKey| best(&named.key, subject, gathered);
    let any: Vec<_> = keys.any_of.iter().map(|key| (key, verdict(key))).collect();
    let all: Vec<_> = keys.all_of.iter().map(|key| (key, verdict(key))).collect();
    let signed = |(_, finding): &&(&NamedKey, Finding)| *finding == Finding::Signed;

    let mut signers = Vec::new();
    for (key, _) in any.iter().chain(&all).filter(signed) {
        if !signers.contains(&key.name) {
            signers.push(key.name.clone());
        }
    }
    let any_lacks = !any.is_empty() && !any.iter().any(|it| signed(&it));
    let missing: Vec<_> = all.iter().filter(|it| !signed(it)).collect();
    if !any_lacks && missing.is_empty() {
        return Ok(signers);
    }

    // The clearest of what is wrong: a right signature of the right key, over something else.
    let unhelpful = any
        .iter()
        .filter(|_| any_lacks)
        .chain(missing.iter().copied());
    for (key, finding) in unhelpful {
        if let Finding::Another(signed) = finding {
            return Err(SignatureError::AnotherDigest {
                digest: digest(),
                signer: key.described(),
                signed: signed.clone(),
            });
        }
    }
    let remarks = match gathered.remarks() {
        none if none.is_empty() => String::new(),
        some => format!(" ({})", some.join("; ")),
    };
    if signers.is_empty() {
        return Err(SignatureError::ByNobodyNamed {
            digest: digest(),
            found: gathered.found(),
            wanted: keys.wanted(),
            remarks,
        });
    }
    let mut lacking: Vec<_> = missing.iter().map(|(key, _)| key.described()).collect();
    if any_lacks {
        let any: Vec<_> = keys.any_of.iter().map(NamedKey::described).collect();
        lacking.push(any.join(" or "));
    }
    Err(SignatureError::Missing {
        digest: digest(),
        missing: lacking.join(" and "),
        remarks,
    })
}

/// The best that a key says of anything that was found.
fn best(key: &VerifyingKey, subject: &Subject<'_>, gathered: &Gathered) -> Finding {
    let mut best = Finding::NotTheirs;
    for evidence in gathered.evidence() {
        match evidence.examine(key, subject) {
            Finding::Signed => return Finding::Signed,
            Finding::Another(signed) => best = Finding::Another(signed),
            Finding::NotTheirs => {}
        }
    }
    best
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
mod tests;

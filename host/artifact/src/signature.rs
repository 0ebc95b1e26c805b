//! Signatures as cosign makes and reads them: keys, what is signed, where a signature lies, and whose are wanted.
//!
//! It knows neither registries nor files: bytes come in, bytes or a verdict go out. Formats are those of cosign 3 and of the Sigstore bundle 0.3;
//! only signatures by keys are read. Certificates, transparency logs and time stamps are looked at by nobody here.

mod beside;
mod bundle;
mod evidence;
mod gathered;
mod judgement;
mod password;
mod pem;
mod policy;
mod private_key;
mod public_key;
mod sealed;
mod simple_signing;

pub use beside::{BUNDLE_SUFFIX, SIGNATURE_SUFFIX, bundle_file, signature_file};
pub use bundle::{BUNDLE_TYPE, is_bundle_type};
pub use evidence::{Evidence, Subject, Unreadable, encoded};
pub use gathered::Gathered;
pub use judgement::{Judgement, check};
pub use password::Password;
pub use policy::{NamedKey, SignatureError, SignerKeys, SignerKeysError};
pub use private_key::{PrivateKey, PrivateKeyFile};
pub use public_key::VerifyingKey;
pub use sealed::SealedKey;
pub(crate) use simple_signing::SIGNATURE_ANNOTATION;
pub use simple_signing::{Payload, payload};

use crate::signature::pem::NotPem;

/// Most signatures that are looked at in one place: a file, a manifest. A release has one or two; each is tried with every key that is named.
pub const SIGNATURES_MAX: usize = 32;
/// Largest signature with what is signed (payload or bundle), in bytes. A bundle with a log entry has about 10 KiB.
pub const SIGNATURE_BYTES: usize = 64 << 10;
/// Largest file of a key, in bytes. One of cosign has 653.
pub const KEY_BYTES: usize = 16 << 10;

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not PEM at all.
    #[error("is not PEM: {0}")]
    NotPem(#[from] NotPem),
    /// PEM of something else.
    #[error("holds `{label}`, not {wanted}")]
    AnotherKind {
        /// What its first line says.
        label: String,
        /// What is wanted, and how to come by it.
        wanted: &'static str,
    },
    /// A key of another algorithm.
    #[error(
        "is a key of another kind than {wanted}; make one with `wasmount keygen` or `cosign generate-key-pair`"
    )]
    AnotherAlgorithm {
        /// Which kinds are known.
        wanted: &'static str,
    },
    /// The encrypted form has something that nobody writes.
    #[error("is encrypted in a way that is not cosign's: {0}; is the file whole?")]
    Sealed(&'static str),
    /// It does not open.
    #[error("does not open with this password, or was changed")]
    WrongPassword,
    /// The system has no randomness.
    #[error("cannot be made or used: the system gives no random bytes")]
    NoRandomness,
}

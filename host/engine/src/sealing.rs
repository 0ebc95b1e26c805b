//! Sealing: authenticated encryption of a secret for one volume of one driver, so that it can stand in a context.
//!
//! A secret of the document gives each volume keys of its own (HKDF-SHA256, RFC 5869). The nonce of AES-256-GCM is an HMAC of the value: the same value
//! gives the same text, and two values of one volume never share a nonce (the construction of SIV, RFC 5297, with 96 bits).

use crate::host_error::HostError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::hmac;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::document::SealingGrant;
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// The beginning of each sealed text. It is also the salt, so keys of another version are others.
const PREFIX: &str = "wasmount.sealed.v1:";
/// Shortest secret of the document, in bytes: as many as the key of the cipher has.
const SECRET_BYTES: usize = 32;
/// Longest value, in bytes: above keys and tokens of storage systems. Its text takes a third of a context's 4 KiB.
const VALUE_BYTES: usize = 1 << 10;
/// Longest sealed text, in bytes: above base64 of such a value with nonce and tag.
const TEXT_BYTES: usize = 2 << 10;

/// The keys of a driver.
#[derive(Clone)]
pub struct Sealing {
    driver: DriverName,
    /// From the secret that seals, then from those that it replaced.
    roots: Vec<Prk>,
}

/// Why a document's secret cannot seal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealingKeyError {
    /// It was not read.
    #[error("the secret `{0}` of `grants.sealing` is missing")]
    Missing(String),
    /// It is too easy to guess.
    #[error(
        "the secret `{0}` of `grants.sealing` has less than {SECRET_BYTES} bytes; make one by `openssl rand -base64 32`"
    )]
    TooShort(String),
}

/// The keys of one volume from one secret.
struct VolumeKeys {
    cipher: LessSafeKey,
    nonces: hmac::Key,
}

impl Sealing {
    /// From the secrets that a grant names.
    pub fn of(
        driver: &DriverName,
        grant: &SealingGrant,
        secrets: &Secrets,
    ) -> Result<Self, SealingKeyError> {
        let roots = grant.secret_names().map(|name| match secrets.get(name) {
            None => Err(SealingKeyError::Missing(name.to_owned())),
            Some(secret) if secret.len() < SECRET_BYTES => {
                Err(SealingKeyError::TooShort(name.to_owned()))
            }
            Some(secret) => {
                let salt = Salt::new(HKDF_SHA256, PREFIX.as_bytes());
                Ok(salt.extract(secret.as_bytes()))
            }
        });
        Ok(Self {
            driver: driver.clone(),
            roots: roots.collect::<Result<_, _>>()?,
        })
    }

    /// A text that opens for this volume only.
    pub(crate) fn seal(&self, volume: &VolumeId, value: &str) -> Result<String, HostError> {
        if !(1..=VALUE_BYTES).contains(&value.len()) {
            let reason = format!("a value to seal has 1 to {VALUE_BYTES} bytes");
            return Err(HostError::rejected(reason, Blame::Of(Owner::Plugin)));
        }
        let keys = self.roots.first().and_then(|root| self.keys(root, volume));
        let sealed = keys.and_then(|keys| keys.seal(value));
        // The cipher fails for no reason that is documented.
        let failed = || HostError::new(Code::Unavailable, "the value could not be sealed");
        let sealed = sealed.ok_or_else(failed)?;
        Ok(format!("{PREFIX}{}", BASE64.encode(sealed)))
    }

    /// The value of a text; `None` if it is of another volume or driver, sealed with another secret, or changed.
    pub(crate) fn open(&self, volume: &VolumeId, text: &str) -> Option<Zeroizing<String>> {
        let sealed = BASE64.decode(text.strip_prefix(PREFIX)?).ok()?;
        let mut roots = self.roots.iter();
        roots.find_map(|root| self.keys(root, volume)?.open(&sealed))
    }

    fn keys(&self, root: &Prk, volume: &VolumeId) -> Option<VolumeKeys> {
        let (driver, volume) = (self.driver.as_str(), volume.as_str());
        // No driver's name contains a NUL byte, so no two pairs are alike.
        let context = |purpose: &'static str| [purpose, "\0", driver, "\0", volume].concat();
        let cipher = context("value");
        let nonces = context("nonce");
        let (cipher, nonces) = ([cipher.as_bytes()], [nonces.as_bytes()]);
        let cipher = root.expand(&cipher, &AES_256_GCM).ok()?;
        let nonces = root.expand(&nonces, hmac::HMAC_SHA256).ok()?;
        Some(VolumeKeys {
            cipher: LessSafeKey::new(UnboundKey::from(cipher)),
            nonces: hmac::Key::from(nonces),
        })
    }
}

impl VolumeKeys {
    fn seal(&self, value: &str) -> Option<Vec<u8>> {
        let tag = hmac::sign(&self.nonces, value.as_bytes());
        let nonce: [u8; NONCE_LEN] = *tag.as_ref().first_chunk()?;
        let mut bytes = Zeroizing::new(value.as_bytes().to_vec());
        let tag = self.cipher.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::empty(),
            &mut bytes,
        );
        Some([nonce.as_slice(), bytes.as_slice(), tag.ok()?.as_ref()].concat())
    }

    fn open(&self, sealed: &[u8]) -> Option<Zeroizing<String>> {
        let (nonce, bytes) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = Zeroizing::new(bytes.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let value = self.cipher.open_in_place(nonce, Aad::empty(), &mut bytes);
        let value = std::str::from_utf8(value.ok()?).ok()?;
        Some(Zeroizing::new(value.to_owned()))
    }
}

/// Whether a text has the form of a sealed one, whatever it holds.
pub(crate) fn is_sealed(text: &str) -> bool {
    text.len() <= TEXT_BYTES && text.starts_with(PREFIX)
}

#[cfg(test)]
mod tests;

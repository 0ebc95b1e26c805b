//! Private keys: made, read, sealed, and what they sign.

use super::sealed::{LABEL, OLD_LABEL, SealedKey};
use super::{KeyError, Password, VerifyingKey, pem};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use std::fmt;
use zeroize::Zeroizing;

/// PKCS #8 that is not encrypted.
const PLAIN_LABEL: &str = "PRIVATE KEY";
/// What is known.
const WANTED: &str = "ECDSA on P-256";

/// An ECDSA key on P-256. `Debug` shows its public half.
pub struct PrivateKey {
    pair: EcdsaKeyPair,
    pkcs8: Zeroizing<Vec<u8>>,
}

/// What a file of a private key holds.
#[derive(Debug)]
pub enum PrivateKeyFile {
    /// The key itself: whoever reads the file can sign.
    Plain(PrivateKey),
    /// What a password opens.
    Sealed(SealedKey),
}

impl PrivateKey {
    /// Makes one.
    pub fn generate() -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
            .map_err(|_| KeyError::NoRandomness)?;
        Self::from_pkcs8(Zeroizing::new(document.as_ref().to_vec()))
    }

    /// Sealed with a password, which may be empty as it may be with cosign.
    pub fn seal(&self, password: &Password) -> Result<SealedKey, KeyError> {
        SealedKey::seal(&self.pkcs8, password)
    }

    /// Signs bytes: ASN.1, as cosign does.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.pair.sign(&SystemRandom::new(), message);
        let signature = signature.map_err(|_| KeyError::NoRandomness)?;
        Ok(signature.as_ref().to_vec())
    }

    /// Its public half.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey::p256(self.pair.public_key().as_ref())
    }

    fn from_pkcs8(pkcs8: Zeroizing<Vec<u8>>) -> Result<Self, KeyError> {
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, &pkcs8, &SystemRandom::new())
            .map_err(|_| KeyError::AnotherAlgorithm { wanted: WANTED })?;
        Ok(Self { pair, pkcs8 })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the private half of {:?}", self.verifying_key())
    }
}

impl PrivateKeyFile {
    /// Reads PEM: cosign's encrypted form, old or new, or PKCS #8.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let block = pem::parse(text)?;
        match block.label.as_str() {
            LABEL | OLD_LABEL => Ok(Self::Sealed(SealedKey::parse(&block.bytes)?)),
            PLAIN_LABEL => Ok(Self::Plain(PrivateKey::from_pkcs8(block.bytes)?)),
            "EC PRIVATE KEY" => Err(KeyError::AnotherKind {
                label: block.label,
                wanted: "PKCS #8; `openssl pkcs8 -topk8 -nocrypt` makes it of this one",
            }),
            _ => Err(KeyError::AnotherKind {
                label: block.label,
                wanted: "a private key of cosign or PKCS #8",
            }),
        }
    }
}

impl SealedKey {
    /// The key, if this is the password.
    pub fn open(&self, password: &Password) -> Result<PrivateKey, KeyError> {
        PrivateKey::from_pkcs8(self.unseal(password)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_signs_its_public_half_verifies_and_no_other() {
        let key = PrivateKey::generate().unwrap();
        let other = PrivateKey::generate().unwrap();
        let signature = key.sign(b"a component").unwrap();
        assert!(key.verifying_key().verifies(b"a component", &signature));
        assert!(!key.verifying_key().verifies(b"another", &signature));
        assert!(!other.verifying_key().verifies(b"a component", &signature));
        let cut = &signature[..signature.len() - 1];
        assert!(!key.verifying_key().verifies(b"a component", cut));
    }

    #[test]
    fn a_sealed_key_opens_to_the_same_key_under_both_labels() {
        let key = PrivateKey::generate().unwrap();
        let text = key.seal(&Password::default()).unwrap().to_pem().unwrap();
        for text in [text.clone(), text.replace(LABEL, OLD_LABEL)] {
            let PrivateKeyFile::Sealed(sealed) = PrivateKeyFile::from_pem(&text).unwrap() else {
                panic!("not sealed: {text}");
            };
            let opened = sealed.open(&Password::default()).unwrap();
            assert_eq!(opened.verifying_key(), key.verifying_key());
            let wrong = Password::new(b"x".to_vec());
            assert_eq!(sealed.open(&wrong).unwrap_err(), KeyError::WrongPassword);
        }
    }

    #[test]
    fn a_plain_key_is_read_and_what_is_none_is_refused() {
        let key = PrivateKey::generate().unwrap();
        let text = pem::write(PLAIN_LABEL, &key.pkcs8);
        let PrivateKeyFile::Plain(read) = PrivateKeyFile::from_pem(&text).unwrap() else {
            panic!("not plain");
        };
        assert_eq!(read.verifying_key(), key.verifying_key());
        for (text, said) in [
            (key.verifying_key().to_pem(), "holds `PUBLIC KEY`, not"),
            (
                text.replace(PLAIN_LABEL, "EC PRIVATE KEY"),
                "holds `EC PRIVATE KEY`, not PKCS #8; `openssl",
            ),
            (
                pem::write(PLAIN_LABEL, b"0").as_str().to_owned(),
                "is a key of another kind than ECDSA on P-256",
            ),
            (
                pem::write(LABEL, b"{").as_str().to_owned(),
                "is encrypted in a way that is not cosign's",
            ),
        ] {
            let refused = PrivateKeyFile::from_pem(&text).unwrap_err().to_string();
            assert!(refused.starts_with(said), "{refused}");
        }
    }

    #[test]
    fn a_printed_key_shows_no_secret() {
        let key = PrivateKey::generate().unwrap();
        let shown = format!("{key:?}");
        assert!(shown.starts_with("the private half of VerifyingKey"));
        assert!(!shown.contains("pkcs8"));
    }
}

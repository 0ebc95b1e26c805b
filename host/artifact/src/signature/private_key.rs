//! Private keys: read from PEM, decrypted, and used to sign.
//!
//! cosign encrypts them with secretbox of NaCl under a key that scrypt derives from the password (go-securesystemslib, package `encrypted`).

use super::{KeyError, Password, VerifyingKey, pem_block};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::aead::Aead;
use crypto_secretbox::{Key, KeyInit, Nonce, XSalsa20Poly1305};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde::Deserialize;
use std::fmt;
use zeroize::Zeroizing;

/// Labels of PEM: since cosign 2, and before.
const LABEL: &str = "ENCRYPTED SIGSTORE PRIVATE KEY";
const OLD_LABEL: &str = "ENCRYPTED COSIGN PRIVATE KEY";

/// Names of the two algorithms; there are no others.
const KDF: &str = "scrypt";
const CIPHER: &str = "nacl/secretbox";
/// The only cost parameters that cosign opens, or else a file could ask for any amount of memory: 128 MiB at most.
const LOG_N: [u8; 3] = [15, 16, 17];
const BLOCK_SIZE: u32 = 8;
const PARALLELISM: u32 = 1;
/// Most bytes of a salt that are read.
const SALT_MAX: usize = 1024;
/// Bytes of a key and of a nonce of secretbox.
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// The label of unencrypted PKCS #8.
const PLAIN_LABEL: &str = "PRIVATE KEY";
/// The supported kinds.
const SUPPORTED: &str = "ECDSA on P-256";

/// An ECDSA key on P-256. `Debug` shows its public half.
pub struct PrivateKey(EcdsaKeyPair);

/// The content of a private key file.
#[derive(Debug)]
pub enum PrivateKeyFile {
    /// An unencrypted key: anyone who can read the file can sign.
    Plain(PrivateKey),
    /// A key that is encrypted with a password.
    Sealed(SealedKey),
}

impl PrivateKey {
    /// Signs bytes; the signature is in ASN.1, as with cosign.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.0.sign(&SystemRandom::new(), message);
        let signature = signature.map_err(|_| KeyError::NoRandomness)?;
        Ok(signature.as_ref().to_vec())
    }

    /// Its public key.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey::p256(self.0.public_key().as_ref())
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &SystemRandom::new())
            .map(Self)
            .map_err(|_| KeyError::AnotherAlgorithm {
                expected: SUPPORTED,
            })
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
        let (label, content) = pem_block(text)?;
        match label.as_str() {
            LABEL | OLD_LABEL => Ok(Self::Sealed(SealedKey::parse(&content)?)),
            PLAIN_LABEL => Ok(Self::Plain(PrivateKey::from_pkcs8(&content)?)),
            "EC PRIVATE KEY" => Err(KeyError::AnotherKind {
                label,
                expected: "PKCS #8; `openssl pkcs8 -topk8 -nocrypt` converts this one",
            }),
            _ => Err(KeyError::AnotherKind {
                label,
                expected: "a private key of cosign or PKCS #8",
            }),
        }
    }
}

/// An encrypted key, which a password decrypts. `Debug` shows no secret: anyone who has the file can read all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedKey {
    log_n: u8,
    salt: Vec<u8>,
    nonce: [u8; NONCE_BYTES],
    ciphertext: Vec<u8>,
}

/// The JSON within PEM.
#[derive(Deserialize)]
struct Form {
    kdf: Kdf,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct Kdf {
    name: String,
    params: Params,
    salt: String,
}

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct Cipher {
    name: String,
    nonce: String,
}

impl SealedKey {
    /// Decrypts the key with this password.
    pub fn open(&self, password: &Password) -> Result<PrivateKey, KeyError> {
        PrivateKey::from_pkcs8(&self.unseal(password)?)
    }

    /// Decrypts the content.
    fn unseal(&self, password: &Password) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let opened = self
            .cipher(password)?
            .decrypt(Nonce::from_slice(&self.nonce), self.ciphertext.as_slice());
        opened
            .map(Zeroizing::new)
            .map_err(|_| KeyError::WrongPassword)
    }

    /// Parses the content of the PEM block.
    fn parse(json: &[u8]) -> Result<Self, KeyError> {
        let form: Form = serde_json::from_slice(json)
            .map_err(|_| KeyError::Sealed("its JSON does not parse"))?;
        let Params { n, r, p } = form.kdf.params;
        if form.kdf.name != KDF {
            return Err(KeyError::Sealed("its key derivation is not scrypt"));
        }
        if form.cipher.name != CIPHER {
            return Err(KeyError::Sealed("its cipher is not nacl/secretbox"));
        }
        let known = LOG_N.into_iter().find(|log_n| n == 1 << log_n);
        let Some(log_n) = known.filter(|_| r == BLOCK_SIZE && p == PARALLELISM) else {
            return Err(KeyError::Sealed(
                "its cost parameters are not those of cosign",
            ));
        };
        let salt = decode(&form.kdf.salt)?;
        if salt.len() > SALT_MAX {
            return Err(KeyError::Sealed("its salt is too long"));
        }
        let nonce = decode(&form.cipher.nonce)?;
        Ok(Self {
            log_n,
            salt,
            nonce: nonce
                .try_into()
                .map_err(|_| KeyError::Sealed("its nonce has another length"))?,
            ciphertext: decode(&form.ciphertext)?,
        })
    }

    fn cipher(&self, password: &Password) -> Result<XSalsa20Poly1305, KeyError> {
        let unusable = |_| KeyError::Sealed("its cost parameters cannot be used");
        let params = scrypt::Params::new(self.log_n, BLOCK_SIZE, PARALLELISM, KEY_BYTES)
            .map_err(unusable)?;
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        scrypt::scrypt(&password.0, &self.salt, &params, key.as_mut_slice())
            .map_err(|_| KeyError::Sealed("its salt cannot be used"))?;
        Ok(XSalsa20Poly1305::new(Key::from_slice(key.as_slice())))
    }
}

fn decode(text: &str) -> Result<Vec<u8>, KeyError> {
    STANDARD
        .decode(text)
        .map_err(|_| KeyError::Sealed("it has what is not base64"))
}

#[cfg(test)]
impl PrivateKey {
    /// Generates a key.
    pub(crate) fn generate() -> Result<Self, KeyError> {
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new())
            .map_err(|_| KeyError::NoRandomness)?;
        Self::from_pkcs8(document.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::pem_of;
    use serde_json::{Value, json};

    /// A key as `cosign generate-key-pair` of cosign 3.1.3 writes it; the password is `correct horse`.
    const COSIGN_KEY: &str = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n\
    eyJrZGYiOnsibmFtZSI6InNjcnlwdCIsInBhcmFtcyI6eyJOIjo2NTUzNiwiciI6\n\
    OCwicCI6MX0sInNhbHQiOiJJSWxqRDBPV216d1EwNFUvdXI5enZPWk9FVjJkOVR3\n\
    ZHIrWUxaTVlpRDB3PSJ9LCJjaXBoZXIiOnsibmFtZSI6Im5hY2wvc2VjcmV0Ym94\n\
    Iiwibm9uY2UiOiJCOFpIRzVLeVI3bU9tS29uZWdIZWphUFIrOEc2a0hvdiJ9LCJj\n\
    aXBoZXJ0ZXh0IjoiSDBCeFhBampLM3ZIRXl0aFRqdGNOVFduY0F1cXd1OG1TRnhX\n\
    ay9uVjV0OTRxVjJ2MDAyVEJaS0xGd1ZIbFpkR1V1K1lNNytjUWFmcTdXQm5mOGx2\n\
    YTRIU2JyY0tKaFRra012VzBnRWVOWlcwQlNDcWQwckQ0QjZZZEpCaFVvNjRqem0v\n\
    VW8wb3NUNVhDdDBvSi81WmdDQUJ4KzdXTm5WVzkvbkwxUGMxcDA1TnpmK1BCZXZK\n\
    UzVTdjFmOGxrQUlaeE1yTzRiYVRDYjEzZWc9PSJ9\n\
    -----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n";
    const COSIGN_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAExYp9HoxdNe2ExvpOdiipayZnBUNa\n\
    cMH+0mMy/jsSaJuCUdTwNRivHunChdGBn/kHIz9AYtRz94HEe3z8W14hhw==\n\
    -----END PUBLIC KEY-----\n";

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
    fn a_key_of_cosign_opens_with_its_password_under_both_labels() {
        let public = VerifyingKey::from_pem(COSIGN_PUBLIC).unwrap();
        for text in [COSIGN_KEY.to_owned(), COSIGN_KEY.replace(LABEL, OLD_LABEL)] {
            let PrivateKeyFile::Sealed(sealed) = PrivateKeyFile::from_pem(&text).unwrap() else {
                panic!("not sealed: {text}");
            };
            let opened = sealed.open(&Password::new(b"correct horse".to_vec()));
            assert_eq!(opened.unwrap().verifying_key(), public);
            let wrong = sealed.open(&Password::default()).unwrap_err();
            assert_eq!(wrong, KeyError::WrongPassword);
        }
    }

    #[test]
    fn a_plain_key_is_read_and_what_is_none_is_refused() {
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
        let key = PrivateKey::from_pkcs8(pkcs8.as_ref()).unwrap();
        let text = pem_of(PLAIN_LABEL, pkcs8.as_ref());
        let PrivateKeyFile::Plain(read) = PrivateKeyFile::from_pem(&text).unwrap() else {
            panic!("not plain");
        };
        assert_eq!(read.verifying_key(), key.verifying_key());
        for (text, expected) in [
            (key.verifying_key().to_pem(), "holds `PUBLIC KEY`, not"),
            (
                text.replace(PLAIN_LABEL, "EC PRIVATE KEY"),
                "holds `EC PRIVATE KEY`, not PKCS #8; `openssl",
            ),
            (
                pem_of(PLAIN_LABEL, b"0"),
                "is a key of another kind than ECDSA on P-256",
            ),
            (
                pem_of(LABEL, b"{"),
                "is encrypted in a way that is not cosign's",
            ),
        ] {
            let refused = PrivateKeyFile::from_pem(&text).unwrap_err().to_string();
            assert!(refused.starts_with(expected), "{refused}");
        }
    }

    #[test]
    fn a_printed_key_shows_no_secret() {
        let key = PrivateKey::generate().unwrap();
        let shown = format!("{key:?}");
        assert!(shown.starts_with("the private half of VerifyingKey"));
        assert!(!shown.contains("pkcs8"));
    }

    /// The JSON with one value changed.
    fn with(pointer: &str, value: Value) -> Vec<u8> {
        let mut form = json!({
            "kdf": { "name": "scrypt", "params": { "N": 32768, "r": 8, "p": 1 }, "salt": "c2FsdA==" },
            "cipher": { "name": "nacl/secretbox", "nonce": STANDARD.encode([7; NONCE_BYTES]) },
            "ciphertext": "AAAA",
        });
        *form.pointer_mut(pointer).unwrap() = value;
        serde_json::to_vec(&form).unwrap()
    }

    #[test]
    fn a_changed_ciphertext_does_not_open() {
        let sealed = SealedKey::parse(&with("/cipher/name", json!(CIPHER))).unwrap();
        let refused = sealed.unseal(&Password::default()).unwrap_err();
        assert_eq!(refused, KeyError::WrongPassword);
    }

    #[test]
    fn the_older_kdf_cost_is_read_and_others_rejected() {
        for (n, known) in [
            (1 << 14, false),
            (1 << 15, true),
            (1 << 16, true),
            (1 << 17, true),
            (1 << 18, false),
            (1_u64 << 40, false),
            (0, false),
        ] {
            let read = SealedKey::parse(&with("/kdf/params/N", json!(n)));
            assert_eq!(read.is_ok(), known, "{n}");
        }
        for (pointer, value) in [
            ("/kdf/params/r", json!(1 << 20)),
            ("/kdf/params/p", json!(2)),
            ("/kdf/name", json!("argon2")),
            ("/cipher/name", json!("none")),
            ("/cipher/nonce", json!("AAAA")),
            ("/ciphertext", json!("%")),
            ("/kdf/salt", json!(STANDARD.encode([0; SALT_MAX + 1]))),
        ] {
            let read = SealedKey::parse(&with(pointer, value));
            assert!(matches!(read, Err(KeyError::Sealed(_))), "{pointer}");
        }
    }
}

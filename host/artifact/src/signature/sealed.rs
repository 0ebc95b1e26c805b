//! cosign's encrypted form of a private key: scrypt derives a key from the password, NaCl's secretbox encrypts PKCS #8 with it, JSON says how
//! (go-securesystemslib, package `encrypted`).

use super::{KeyError, Password};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::aead::Aead;
use crypto_secretbox::{Key, KeyInit, Nonce, XSalsa20Poly1305};
use serde::Deserialize;
use zeroize::Zeroizing;

/// Labels of PEM: since cosign 2, and before.
pub(super) const LABEL: &str = "ENCRYPTED SIGSTORE PRIVATE KEY";
pub(super) const OLD_LABEL: &str = "ENCRYPTED COSIGN PRIVATE KEY";

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

/// Something that only a password opens. `Debug` shows nothing that is secret: all of it may be read by anybody who has the file.
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
    /// What was sealed.
    pub(super) fn unseal(&self, password: &Password) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let opened = self
            .cipher(password)?
            .decrypt(Nonce::from_slice(&self.nonce), self.ciphertext.as_slice());
        opened
            .map(Zeroizing::new)
            .map_err(|_| KeyError::WrongPassword)
    }

    /// Reads what stands in the PEM.
    pub(super) fn parse(json: &[u8]) -> Result<Self, KeyError> {
        let form: Form = serde_json::from_slice(json)
            .map_err(|_| KeyError::Sealed("its JSON does not parse"))?;
        let Form {
            kdf:
                Kdf {
                    name,
                    params: Params { n, r, p },
                    salt,
                },
            cipher,
            ciphertext,
        } = form;
        if name != KDF {
            return Err(KeyError::Sealed("its key derivation is not scrypt"));
        }
        if cipher.name != CIPHER {
            return Err(KeyError::Sealed("its cipher is not nacl/secretbox"));
        }
        let known = LOG_N.into_iter().find(|log_n| n == 1 << log_n);
        let Some(log_n) = known.filter(|_| r == BLOCK_SIZE && p == PARALLELISM) else {
            return Err(KeyError::Sealed(
                "its cost parameters are none of those that cosign writes",
            ));
        };
        let salt = decode(&salt)?;
        if salt.len() > SALT_MAX {
            return Err(KeyError::Sealed("its salt is too long"));
        }
        let nonce = decode(&cipher.nonce)?;
        Ok(Self {
            log_n,
            salt,
            nonce: nonce
                .try_into()
                .map_err(|_| KeyError::Sealed("its nonce has another length"))?,
            ciphertext: decode(&ciphertext)?,
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
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The form with one thing changed.
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

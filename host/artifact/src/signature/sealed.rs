//! cosign's encrypted form of a private key: scrypt makes a key of the password, NaCl's secretbox seals PKCS #8 with it, JSON tells how
//! (go-securesystemslib, package `encrypted`).
//!
//! It knows nothing of keys: bytes are sealed and opened.

use super::{KeyError, Password, pem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::aead::Aead;
use crypto_secretbox::{Key, KeyInit, Nonce, XSalsa20Poly1305};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Labels of PEM: since cosign 2, and before.
pub(super) const LABEL: &str = "ENCRYPTED SIGSTORE PRIVATE KEY";
pub(super) const OLD_LABEL: &str = "ENCRYPTED COSIGN PRIVATE KEY";

/// Names of the two algorithms; there are no others.
const KDF: &str = "scrypt";
const CIPHER: &str = "nacl/secretbox";
/// The only cost parameters that cosign opens, or else a file could ask for any amount of memory. Ours are the second: 64 MiB.
const LOG_N: [u8; 3] = [15, 16, 17];
const OUR_LOG_N: u8 = 16;
const BLOCK_SIZE: u32 = 8;
const PARALLELISM: u32 = 1;
/// Bytes of the salt that we write, as cosign does.
const SALT_BYTES: usize = 32;
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

/// The JSON within PEM. The order is cosign's.
#[derive(Serialize, Deserialize)]
struct Form {
    kdf: Kdf,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Serialize, Deserialize)]
struct Kdf {
    name: String,
    params: Params,
    salt: String,
}

#[derive(Serialize, Deserialize)]
struct Params {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Serialize, Deserialize)]
struct Cipher {
    name: String,
    nonce: String,
}

impl SealedKey {
    /// Seals it.
    pub(super) fn seal(secret: &[u8], password: &Password) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let mut salt = vec![0; SALT_BYTES];
        let mut nonce = [0; NONCE_BYTES];
        for bytes in [salt.as_mut_slice(), &mut nonce] {
            random.fill(bytes).map_err(|_| KeyError::NoRandomness)?;
        }
        let mut sealed = Self {
            log_n: OUR_LOG_N,
            salt,
            nonce,
            ciphertext: Vec::new(),
        };
        let cipher = sealed.cipher(password)?;
        sealed.ciphertext = cipher
            .encrypt(Nonce::from_slice(&nonce), secret)
            .map_err(|_| KeyError::Sealed("it is too long"))?;
        Ok(sealed)
    }

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

    /// As PEM.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let form = Form {
            kdf: Kdf {
                name: KDF.to_owned(),
                params: Params {
                    n: 1 << self.log_n,
                    r: BLOCK_SIZE,
                    p: PARALLELISM,
                },
                salt: STANDARD.encode(&self.salt),
            },
            cipher: Cipher {
                name: CIPHER.to_owned(),
                nonce: STANDARD.encode(self.nonce),
            },
            ciphertext: STANDARD.encode(&self.ciphertext),
        };
        let json = serde_json::to_vec(&form)
            .map_err(|_| KeyError::Sealed("it cannot be written as JSON"))?;
        Ok(pem::write(LABEL, &json).as_str().to_owned())
    }

    fn cipher(&self, password: &Password) -> Result<XSalsa20Poly1305, KeyError> {
        let unusable = |_| KeyError::Sealed("its cost parameters cannot be used");
        let params = scrypt::Params::new(self.log_n, BLOCK_SIZE, PARALLELISM, KEY_BYTES)
            .map_err(unusable)?;
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        scrypt::scrypt(password.as_bytes(), &self.salt, &params, key.as_mut_slice())
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
    fn what_is_sealed_opens_with_its_password_alone() {
        let password = Password::new(b"open sesame".to_vec());
        let sealed = SealedKey::seal(b"secret", &password).unwrap();
        let block = pem::parse(&sealed.to_pem().unwrap()).unwrap();
        assert_eq!(block.label, LABEL);
        let again = SealedKey::parse(&block.bytes).unwrap();
        assert_eq!(again, sealed);
        assert_eq!(*again.unseal(&password).unwrap(), b"secret");
        assert_eq!(
            again.unseal(&Password::default()).unwrap_err(),
            KeyError::WrongPassword
        );
        let mut changed = again.clone();
        changed.ciphertext[3] ^= 1;
        let refused = changed.unseal(&password).unwrap_err();
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

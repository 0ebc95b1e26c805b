//! What a LUKS2 header says (LUKS2 On-Disk Format 1.1.1), and whether this host uses it.
//!
//! A storage system can replace the header. It cannot learn the passphrase by that, but it could name a cipher that encrypts nothing, for the key slot or
//! for the data, or a key derivation that takes all memory of the node. So only what this host itself writes, and stronger, is accepted.

use crate::block::BlockDevice;
use crate::failure::shown;
use serde::Deserialize;
use std::collections::BTreeMap;
use wasmount_core::mounter::MountError;

/// What the header takes of a device, in bytes: the default of cryptsetup, 2.0 and later.
pub(super) const BYTES: u64 = 16 << 20;
/// The two copies of the metadata at its beginning, in bytes: the default of cryptsetup. Key slots are behind them.
pub(super) const COPIES_BYTES: u64 = 32 << 10;
/// Smallest device that gets a header, in bytes: 1 MiB is left for the volume, which no file system is content with less than.
const DEVICE_BYTES_MIN: u64 = BYTES + (1 << 20);
/// The binary part of the first copy, in bytes, and where it has its label and its UUID (2.1, Binary Header).
const BINARY_BYTES: usize = 4096;
const LABEL: std::ops::Range<usize> = 24..72;
const UUID: std::ops::Range<usize> = 168..208;

/// The cipher of key slots and data: AES-XTS, the default of cryptsetup.
pub(super) const CIPHER: &str = "aes-xts-plain64";
/// Smallest key in bytes: two keys of AES-128.
const KEY_BYTES_MIN: u64 = 32;
/// Most memory that a key derivation may take, in KiB. 512 MiB: half of what the mounter's container has.
const KDF_MEMORY_KIB_MAX: u64 = 512 << 10;

/// Labels of headers.
pub(super) mod label {
    /// Nobody used the device yet: the map is being prepared.
    pub(in super::super) const NEW: &str = "wasmount-new";
    /// The device is in use.
    pub(in super::super) const USED: &str = "wasmount";
}

/// The identity of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) label: String,
    pub(super) uuid: String,
}

/// The metadata of a header, as `cryptsetup luksDump` writes it (3, JSON Area). Everything else in it is of no concern here.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    keyslots: BTreeMap<String, KeySlot>,
    segments: BTreeMap<String, Segment>,
    config: Config,
}

#[derive(Debug, Deserialize)]
struct KeySlot {
    r#type: String,
    key_size: u64,
    area: Area,
    kdf: Option<Kdf>,
}

#[derive(Debug, Deserialize)]
struct Area {
    encryption: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Kdf {
    r#type: String,
    /// In KiB; absent for PBKDF2.
    memory: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Segment {
    r#type: String,
    encryption: Option<String>,
    integrity: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Config {
    requirements: Option<Requirements>,
}

#[derive(Debug, Deserialize)]
struct Requirements {
    #[serde(default)]
    mandatory: Vec<String>,
}

impl Header {
    pub(super) fn read(device: &BlockDevice) -> Result<Self, MountError> {
        let bytes = device.read_at(0, BINARY_BYTES)?;
        let text = |range| {
            let field: &[u8] = bytes.get(range).unwrap_or_default();
            let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        Ok(Self {
            label: text(LABEL),
            uuid: text(UUID),
        })
    }
}

impl Metadata {
    pub(super) fn keys(&self) -> usize {
        self.keyslots.len()
    }

    /// Refuses a header that this host does not open.
    pub(super) fn check(&self, device: &BlockDevice) -> Result<(), MountError> {
        self.fault().map_or(Ok(()), |fault| {
            let advice = "nothing was opened; look at `cryptsetup luksDump`, and restore the header if it was replaced";
            Err(MountError::unusable(device, format!("its LUKS header {fault}; {advice}")))
        })
    }

    fn fault(&self) -> Option<String> {
        if self.keyslots.is_empty() {
            return Some("has no key".to_owned());
        }
        let requirements = self.config.requirements.as_ref();
        if let Some(first) = requirements.and_then(|it| it.mandatory.first()) {
            return Some(format!(
                "demands `{}`, which this host does not know",
                shown(first)
            ));
        }
        let mut segments = self.segments.values();
        let is_whole = match (segments.next(), segments.next()) {
            (Some(one), None) => one.r#type == "crypt" && one.integrity.is_none(),
            _ => false,
        };
        if !is_whole {
            return Some("does not describe one encrypted segment".to_owned());
        }
        let ciphers = self.segments.values().map(|it| &it.encryption);
        let mut ciphers = ciphers.chain(self.keyslots.values().map(|it| &it.area.encryption));
        if let Some(other) = ciphers.find(|it| it.as_deref() != Some(CIPHER)) {
            let other = shown(other.as_deref().unwrap_or("none"));
            return Some(format!(
                "names the cipher `{other}`, and only {CIPHER} is used"
            ));
        }
        self.keyslots.values().find_map(KeySlot::fault)
    }
}

impl KeySlot {
    fn fault(&self) -> Option<String> {
        let Some(kdf) = self.kdf.as_ref().filter(|_| self.r#type == "luks2") else {
            return Some(format!("has a key slot of type `{}`", shown(&self.r#type)));
        };
        if self.key_size < KEY_BYTES_MIN {
            return Some(format!(
                "has a key of {} bytes, which is too short",
                self.key_size
            ));
        }
        match (kdf.r#type.as_str(), kdf.memory) {
            ("pbkdf2", _) => None,
            ("argon2i" | "argon2id", Some(memory)) if memory <= KDF_MEMORY_KIB_MAX => None,
            ("argon2i" | "argon2id", Some(memory)) => Some(format!(
                "demands {memory} KiB of memory to check a passphrase, and {KDF_MEMORY_KIB_MAX} KiB are possible (`cryptsetup luksConvertKey --pbkdf-memory` changes that)"
            )),
            (other, _) => Some(format!("derives its key by `{}`", shown(other))),
        }
    }
}

/// Refuses a device that is too small for a header and a volume.
pub(super) fn require_size(device: &BlockDevice) -> Result<(), MountError> {
    let bytes = device.size_bytes()?;
    if bytes >= DEVICE_BYTES_MIN {
        return Ok(());
    }
    let reason = format!(
        "it has {bytes} bytes, and an encrypted volume needs {DEVICE_BYTES_MIN} at least: its header takes {BYTES}"
    );
    Err(MountError::unusable(device, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn valid() -> Value {
        json!({
            "keyslots": { "0": {
                "type": "luks2", "key_size": 64,
                "af": { "type": "luks1", "stripes": 4000, "hash": "sha256" },
                "area": { "type": "raw", "offset": "32768", "size": "258048", "encryption": "aes-xts-plain64", "key_size": 64 },
                "kdf": { "type": "argon2id", "time": 4, "memory": 65536, "cpus": 4, "salt": "" },
            } },
            "tokens": {},
            "segments": { "0": { "type": "crypt", "offset": "16777216", "size": "dynamic", "iv_tweak": "0", "encryption": "aes-xts-plain64", "sector_size": 512 } },
            "digests": {},
            "config": { "json_size": "12288", "keyslots_size": "16744448" },
        })
    }

    fn fault(change: impl FnOnce(&mut Value)) -> Option<String> {
        let mut value = valid();
        change(&mut value);
        serde_json::from_value::<Metadata>(value).unwrap().fault()
    }

    #[test]
    fn a_header_as_cryptsetup_makes_it_is_used() {
        assert_eq!(fault(|_| {}), None);
        let pbkdf2 = json!({ "type": "pbkdf2", "hash": "sha256", "iterations": 1000, "salt": "" });
        assert_eq!(fault(|it| it["keyslots"]["0"]["kdf"] = pbkdf2), None);
        assert_eq!(
            fault(|it| it["keyslots"]["0"]["key_size"] = json!(32)),
            None
        );
        let most = json!(KDF_MEMORY_KIB_MAX);
        assert_eq!(
            fault(|it| it["keyslots"]["0"]["kdf"]["memory"] = most),
            None
        );
        let none = json!({ "mandatory": [] });
        assert_eq!(fault(|it| it["config"]["requirements"] = none), None);
    }

    #[test]
    fn a_header_that_weakens_or_takes_too_much_is_refused() {
        let slot = |name: &str, value: Value| {
            let name = name.to_owned();
            fault(move |it| it["keyslots"]["0"][name] = value)
        };
        let null = json!("cipher_null-ecb");
        let segment = valid()["segments"]["0"].clone();
        for (fault, named) in [
            (fault(|it| it["keyslots"] = json!({})), "no key"),
            (
                fault(|it| it["segments"]["0"]["encryption"] = null.clone()),
                "cipher_null-ecb",
            ),
            (
                slot("area", json!({ "encryption": "cipher_null-ecb" })),
                "cipher_null-ecb",
            ),
            (
                slot("area", json!({ "mode": "checksum" })),
                "the cipher `none`",
            ),
            (
                fault(|it| it["segments"]["0"]["type"] = json!("linear")),
                "one encrypted segment",
            ),
            (
                fault(|it| it["segments"]["1"] = segment),
                "one encrypted segment",
            ),
            (
                fault(|it| it["segments"]["0"]["integrity"] = json!({ "type": "none" })),
                "one encrypted segment",
            ),
            (slot("type", json!("reencrypt")), "type `reencrypt`"),
            (slot("key_size", json!(1)), "1 bytes"),
            (
                slot("kdf", json!({ "type": "argon2id", "memory": 1 << 22 })),
                "4194304 KiB",
            ),
            (
                slot("kdf", json!({ "type": "argon2id" })),
                "derives its key",
            ),
            (
                slot("kdf", json!({ "type": "scrypt", "memory": 1 })),
                "scrypt",
            ),
            (
                fault(|it| {
                    it["config"]["requirements"] = json!({ "mandatory": ["online-reencrypt-v2"] })
                }),
                "online-reencrypt",
            ),
        ] {
            assert!(
                fault.as_ref().is_some_and(|it| it.contains(named)),
                "{fault:?} {named}"
            );
        }
    }
}

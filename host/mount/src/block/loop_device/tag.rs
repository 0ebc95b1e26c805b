//! The owner of a loop device, as a tag that the kernel stores with the device (`lo_file_name`).
//!
//! The tag contains hashes, because the field is shorter than driver, volume and path together.

use sha2::{Digest, Sha256};
use wasmount_core::mounter::VolumeKey;
use wasmount_sys::loop_device::{NAME_BYTES, Name};

/// Distinguishes this host's loop devices from all others.
const PREFIX: &str = "wasmount:";
/// Hexadecimal digits of a hash. 96 bits are enough that two volumes with the same tag cannot be found. Two hashes fit the field.
const DIGITS: usize = 24;

const _: () = assert!(PREFIX.len() + DIGITS + ":".len() + DIGITS <= NAME_BYTES);

/// The owner of a loop device: the stage of a volume, or one of its targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag(String);

impl Tag {
    /// The tag of a volume's stage.
    pub(crate) fn staged(key: &VolumeKey) -> Self {
        // Neither string contains NUL, so no two volumes have the same hash input.
        let volume = digits(&[key.driver.as_str(), "\0", key.volume.as_str()]);
        Self(format!("{PREFIX}{volume}"))
    }

    /// The tag of one target of a volume.
    pub(crate) fn target(key: &VolumeKey, target_path: &str) -> Self {
        let Self(staged) = Self::staged(key);
        Self(format!("{staged}:{}", digits(&[target_path])))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_hash = |hash: &str| hash.len() == DIGITS && hash.bytes().all(is_digit);
        let mut hashes = text.strip_prefix(PREFIX)?.splitn(2, ':');
        hashes.all(is_hash).then(|| Self(text.to_owned()))
    }

    /// Whether the device belongs to that volume, to its stage or to one of its targets.
    pub(crate) fn is_of(&self, key: &VolumeKey) -> bool {
        self.0.starts_with(&Self::staged(key).0)
    }

    /// The form that the kernel takes.
    pub(super) fn to_name(&self) -> Name {
        let mut name = [0; NAME_BYTES];
        let bytes = name.iter_mut().zip(self.0.bytes());
        bytes.for_each(|(to, from)| *to = from);
        name
    }

    /// Parses the name that the kernel stored. `None`: another program wrote it.
    pub(super) fn from_name(name: &Name) -> Option<Self> {
        let text = name.split(|byte| *byte == 0).next()?;
        Self::parse(str::from_utf8(text).ok()?)
    }
}

/// The beginning of a SHA-256, in lower case hexadecimal digits.
pub(crate) fn digits(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let mut digits = hex::encode(hash.finalize());
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wasmount_core::names::{DriverName, VolumeId};

    fn key(driver: &str, volume: &str) -> VolumeKey {
        VolumeKey {
            driver: DriverName::parse(driver).unwrap(),
            volume: VolumeId::parse("volume_id", volume).unwrap(),
        }
    }

    #[test]
    fn a_tag_is_written_as_it_always_was() {
        // `printf 'a.test\0v' | sha256sum`, `printf /t | sha256sum`: other versions of the host must find what this one left.
        let staged = "wasmount:4c4f0ba31c6a426101d17f00";
        assert_eq!(Tag::staged(&key("a.test", "v")).0, staged);
        assert_eq!(
            Tag::target(&key("a.test", "v"), "/t").0,
            format!("{staged}:599c83a04aedc485a8e62fcd")
        );
    }

    #[test]
    fn a_tag_is_of_its_volume_and_of_no_other() {
        let volume = key("a.test", "v");
        for tag in [Tag::staged(&volume), Tag::target(&volume, "/t")] {
            assert!(tag.is_of(&volume));
            assert!(!tag.is_of(&key("a.test", "w")));
            assert!(!tag.is_of(&key("b.test", "v")));
        }
        assert_ne!(Tag::target(&volume, "/t"), Tag::target(&volume, "/u"));
        assert_ne!(Tag::target(&volume, "/t"), Tag::staged(&volume));
    }

    #[test]
    fn what_others_wrote_is_no_tag() {
        let hash = "0123456789abcdef01234567";
        for text in [
            "",
            "/var/lib/images/a",
            "wasmount:",
            &format!("wasmount:{hash}8"),
            &format!("wasmount:{}", hash.to_uppercase()),
            &format!("wasmount:{hash}:"),
            &format!("wasmount:{hash}:{hash}:{hash}"),
            &format!("Wasmount:{hash}"),
        ] {
            assert_eq!(Tag::parse(text), None, "{text}");
        }
        assert_eq!(Tag::from_name(&[0xff; NAME_BYTES]), None);
        assert!(Tag::parse(&format!("wasmount:{hash}")).is_some());
    }

    proptest! {
        #[test]
        fn a_tag_comes_back_from_the_kernels_field_whole(volume in "[a-z/.\u{e4}]{1,128}", target in "/.{0,200}") {
            let volume = key("a.test", &volume);
            for tag in [Tag::staged(&volume), Tag::target(&volume, &target)] {
                prop_assert!(tag.0.len() <= NAME_BYTES);
                prop_assert_eq!(Tag::from_name(&tag.to_name()), Some(tag));
            }
        }
    }
}

//! What a file system is called on its device: chosen here before it is made, so that what our own `mkfs` left is told from what another made.
//!
//! It is apart because it is kept in records as well as in superblocks. It must not know what follows from two being the same.

use crate::failure::kernel;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::fmt;
use wasmount_core::mounter::MountError;

/// Its size.
const BYTES: usize = 16;
/// Hexadecimal digits before each hyphen and at the end (RFC 9562, section 4).
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
/// Version and variant of random ones (RFC 9562, section 5.4), as bits of the number.
const VERSION: u128 = 0x4 << 76;
const VERSION_MASK: u128 = 0xf << 76;
const VARIANT: u128 = 0b10 << 62;
const VARIANT_MASK: u128 = 0b11 << 62;

/// A UUID (RFC 9562).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Uuid(u128);

impl Uuid {
    /// One that nobody else has.
    pub(super) fn random() -> Result<Self, MountError> {
        let mut bytes = [0; BYTES];
        // Up to 256 bytes come whole, once the kernel has any (getrandom(2)).
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(BYTES) => Ok(Self::of_random(bytes)),
            Ok(_) => Err(kernel("getrandom", "a UUID", Errno::IO)),
            Err(errno) => Err(kernel("getrandom", "a UUID", errno)),
        }
    }

    fn of_random(bytes: [u8; BYTES]) -> Self {
        let rest = u128::from_be_bytes(bytes) & !(VERSION_MASK | VARIANT_MASK);
        Self(rest | VERSION | VARIANT)
    }

    /// As superblocks have it.
    pub(super) fn of_bytes(bytes: [u8; BYTES]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Reads what [`fmt::Display`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let groups: Vec<&str> = text.split('-').collect();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_right = groups.iter().map(|group| group.len()).eq(GROUPS)
            && groups.concat().bytes().all(is_digit);
        let number = u128::from_str_radix(&groups.concat(), 16).ok()?;
        is_right.then_some(Self(number))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let mut rest = digits.as_str();
        for (i, length) in GROUPS.into_iter().enumerate() {
            let (group, behind) = rest.split_at_checked(length).ok_or(fmt::Error)?;
            f.write_str(if i == 0 { "" } else { "-" })?;
            f.write_str(group)?;
            rest = behind;
        }
        Ok(())
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> Self {
        uuid.to_string()
    }
}

impl TryFrom<String> for Uuid {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("it is no UUID")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_random_one_says_so_and_is_new_each_time() {
        let text = Uuid::of_random([0xff; BYTES]).to_string();
        assert_eq!(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let text = Uuid::of_random([0; BYTES]).to_string();
        assert_eq!(text, "00000000-0000-4000-8000-000000000000");
        assert_ne!(Uuid::random().unwrap(), Uuid::random().unwrap());
    }

    #[test]
    fn what_is_written_otherwise_is_none() {
        let text = "01234567-89ab-4cde-8f01-23456789abcd";
        assert_eq!(
            Uuid::parse(text).map(|it| it.to_string()),
            Some(text.to_owned())
        );
        for other in [
            "",
            "-",
            "0123456789ab4cde8f0123456789abcd",
            "01234567-89AB-4CDE-8F01-23456789ABCD",
            "+1234567-89ab-4cde-8f01-23456789abcd",
            "01234567-89ab-4cde-8f01-23456789abcd-",
            "0123456-789ab-4cde-8f01-23456789abcd",
        ] {
            assert_eq!(Uuid::parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_record_and_a_superblock_have_the_same(bytes: [u8; BYTES]) {
            let uuid = Uuid::of_bytes(bytes);
            let json = serde_json::to_string(&uuid).unwrap();
            prop_assert_eq!(serde_json::from_str::<Uuid>(&json).unwrap(), uuid);
        }
    }
}

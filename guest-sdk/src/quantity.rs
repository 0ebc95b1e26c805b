//! Sizes as Kubernetes writes them: `64Mi`, `1G`, `4096`.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;
use std::str::FromStr;

/// Suffixes and their factors (apimachinery, `pkg/api/resource`).
const SUFFIXES: [(&str, u64); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// A number of bytes, parsed from a Kubernetes quantity: usable as a field of a type that [`crate::AttributesExt::read`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub u64);

/// The text is not a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAQuantity;

impl FromStr for Quantity {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        let suffixed = |(suffix, unit)| Some((text.strip_suffix(suffix)?, unit));
        let (digits, unit) = SUFFIXES.into_iter().find_map(suffixed).unwrap_or((text, 1));
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NotAQuantity);
        }
        let number: u64 = digits.parse().map_err(|_| NotAQuantity)?;
        number.checked_mul(unit).map(Self).ok_or(NotAQuantity)
    }
}

impl fmt::Display for NotAQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a number of bytes, such as `64Mi`")
    }
}

impl std::error::Error for NotAQuantity {}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_a_number_with_or_without_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64Mi", 64 << 20),
            ("3k", 3000),
            ("1G", 1_000_000_000),
            ("15Ei", 15 << 60),
        ] {
            assert_eq!(text.parse(), Ok(Quantity(bytes)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "", "Mi", "-1", "+1", "1.5Gi", "1 Gi", "1mi", "16Ei", "1e3", "1MiMi",
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(NotAQuantity), "{text}");
        }
    }
}

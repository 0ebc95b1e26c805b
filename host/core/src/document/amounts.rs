//! Amounts in the notation of Kubernetes: quantities such as `64Mi` and durations such as `1m30s`.

use std::time::Duration;

/// Binary and decimal suffixes of a quantity (Kubernetes API, `resource.Quantity`). Longer suffixes first: `Mi` ends in no other.
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

/// Units of a duration (Go, `time.ParseDuration`, as `metav1.Duration` reads it), in milliseconds. `ms` comes first: it ends in `s`.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// A number of whole bytes: digits, and a suffix such as `Mi` or `M`. None if it is not a quantity, or too large.
pub fn quantity(text: &str) -> Option<u64> {
    let (digits, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|digits| (digits, *factor)))
        .unwrap_or((text, 1));
    number(digits)?.checked_mul(factor)
}

/// A time: pairs of digits and unit (`h`, `m`, `s`, `ms`), added up. None if it is not a duration, or too long.
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut milliseconds = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (digits, tail) = rest.split_at(end);
        let (tail, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| tail.strip_prefix(name).map(|tail| (tail, *unit)))?;
        milliseconds = milliseconds.checked_add(number(digits)?.checked_mul(unit)?)?;
        rest = tail;
    }
    Some(Duration::from_millis(milliseconds))
}

/// Digits only: `parse` alone would accept a sign.
fn number(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("64Mi", 67_108_864),
            ("64M", 64_000_000),
            ("3k", 3_000),
            ("15Ei", 15 << 60),
        ] {
            assert_eq!(quantity(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_quantity_is_refused() {
        for text in [
            "", "Mi", "64 Mi", "64mi", "-1", "+1", "1.5Gi", "16Ei", "64MB", "0x10",
        ] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, milliseconds) in [
            ("60s", 60_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("0s", 0),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "60",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            "1d",
            "99999999999999999999s",
            "1s5",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}

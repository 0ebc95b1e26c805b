//! What opens, and what does not.

use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";
const VALUE: &str = "AQBvaXNfbm90X2Ffc2VjcmV0";

fn volume(id: &str) -> VolumeId {
    VolumeId::parse("id", id).unwrap()
}

/// Of a driver, with values of the sealing secret and of the one before.
fn sealing_of(
    driver: &str,
    secret: &str,
    previous: Option<&str>,
) -> Result<Sealing, SealingKeyError> {
    let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let secrets = [("new", Some(secret)), ("old", previous)];
    let secrets = secrets
        .into_iter()
        .filter_map(|(name, value)| Some(named(name, value?)));
    let grant = SealingGrant {
        secret: "new".to_owned(),
        previous_secrets: previous.map(|_| "old".to_owned()).into_iter().collect(),
    };
    let driver = DriverName::parse(driver).unwrap();
    Sealing::of(&driver, &grant, &secrets.collect())
}

fn sealing(secret: &str, previous: Option<&str>) -> Sealing {
    sealing_of("a.example.com", secret, previous).unwrap()
}

fn opened(sealing: &Sealing, id: &str, text: &str) -> Option<String> {
    sealing
        .open(&volume(id), text)
        .map(|value| value.to_string())
}

#[test]
fn a_value_opens_for_its_volume() {
    let keys = sealing(SECRET, None);
    for value in [VALUE, "x", &"v".repeat(VALUE_BYTES)] {
        let text = keys.seal(&volume("a"), value).unwrap();
        assert!(is_sealed(&text) && !text.contains(value), "{text}");
        assert_eq!(opened(&keys, "a", &text).as_deref(), Some(value));
    }
}

#[test]
fn a_text_is_the_same_for_the_same_and_another_for_others() {
    let keys = sealing(SECRET, None);
    let text = keys.seal(&volume("a"), VALUE).unwrap();
    assert_eq!(keys.seal(&volume("a"), VALUE).unwrap(), text);
    assert_ne!(keys.seal(&volume("b"), VALUE).unwrap(), text);
    assert_ne!(keys.seal(&volume("a"), "other").unwrap(), text);
    let rotated = sealing(OTHER, Some(SECRET));
    assert_ne!(rotated.seal(&volume("a"), VALUE).unwrap(), text);
}

#[test]
fn a_text_of_an_earlier_host_opens() {
    // Computed by another library (OpenSSL, in Python). A change of the format needs another prefix.
    let text =
        "wasmount.sealed.v1:UxabcFsamphlzySafJr4gaCZZWI79XkwdBy2geM0jjT5UDGAF0xxjkyyCQ-dRvNDp2XEMA";
    let keys = sealing(SECRET, None);
    assert_eq!(keys.seal(&volume("a"), VALUE).unwrap(), text);
    assert_eq!(opened(&keys, "a", text).as_deref(), Some(VALUE));
}

#[test]
fn a_text_opens_with_the_secret_before_and_not_without() {
    let text = sealing(SECRET, None).seal(&volume("a"), VALUE).unwrap();
    let rotated = sealing(OTHER, Some(SECRET));
    assert_eq!(opened(&rotated, "a", &text).as_deref(), Some(VALUE));
    assert_eq!(opened(&sealing(OTHER, None), "a", &text), None);
}

#[test]
fn a_text_of_another_volume_or_driver_does_not_open() {
    let keys = sealing(SECRET, None);
    let text = keys.seal(&volume("a"), VALUE).unwrap();
    for id in ["b", "A", "a ", "aa"] {
        assert_eq!(opened(&keys, id, &text), None, "{id}");
    }
    let other = sealing_of("b.example.com", SECRET, None).unwrap();
    assert_eq!(opened(&other, "a", &text), None);
}

#[test]
fn a_text_that_was_changed_by_a_bit_does_not_open() {
    let keys = sealing(SECRET, None);
    let text = keys.seal(&volume("a"), VALUE).unwrap();
    let sealed = BASE64.decode(text.strip_prefix(PREFIX).unwrap()).unwrap();
    for bit in 0..sealed.len() * 8 {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let text = format!("{PREFIX}{}", BASE64.encode(changed));
        assert_eq!(opened(&keys, "a", &text), None, "bit {bit}");
    }
}

#[test]
fn a_text_of_no_or_another_form_does_not_open() {
    let keys = sealing(SECRET, None);
    let text = keys.seal(&volume("a"), VALUE).unwrap();
    let cut = text.get(..PREFIX.len() + 8).unwrap();
    let newer = text.replace(".v1:", ".v2:");
    for text in ["", PREFIX, cut, &newer, &format!("{text}="), VALUE] {
        assert_eq!(opened(&keys, "a", text), None, "{text}");
    }
    assert!(!is_sealed(&newer) && !is_sealed(VALUE));
    assert!(!is_sealed(&format!("{PREFIX}{}", "A".repeat(TEXT_BYTES))));
}

#[test]
fn a_value_without_a_byte_or_with_too_many_is_not_sealed() {
    let keys = sealing(SECRET, None);
    for value in ["", &"v".repeat(VALUE_BYTES + 1)] {
        let refused = keys.seal(&volume("a"), value).unwrap_err();
        assert_eq!(refused.message, "a value to seal has 1 to 1024 bytes");
    }
    let longest = keys.seal(&volume("a"), &"v".repeat(VALUE_BYTES)).unwrap();
    assert!(is_sealed(&longest));
}

#[test]
fn a_secret_that_is_short_or_missing_cannot_seal() {
    let refused = |secret: &str| sealing_of("a.example.com", secret, None).err();
    let short = SealingKeyError::TooShort("new".to_owned());
    assert_eq!(refused(&SECRET[1..]), Some(short));
    assert_eq!(refused(SECRET), None);
    let driver = DriverName::parse("a.example.com").unwrap();
    let grant = SealingGrant {
        secret: "none".to_owned(),
        previous_secrets: Vec::new(),
    };
    let missing = Sealing::of(&driver, &grant, &Secrets::default()).err();
    assert_eq!(missing, Some(SealingKeyError::Missing("none".to_owned())));
}

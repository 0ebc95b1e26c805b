//! Names, identifiers and paths as received.

use super::*;

#[test]
fn a_driver_name_in_domain_notation_is_taken() {
    for name in [
        "directory.wasmount.io",
        "a",
        "a1",
        "csi-nfs.example.com",
        &"a".repeat(63),
    ] {
        assert_eq!(DriverName::parse(name).unwrap().as_str(), name);
    }
}

#[test]
fn a_driver_name_that_could_leave_its_folder_is_refused() {
    for name in [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        ".a",
        "a.",
        "-a",
        "a_b",
        "a\0b",
        "ä",
        &"a".repeat(64),
    ] {
        assert!(DriverName::parse(name).is_err(), "{name:?}");
    }
}

#[test]
fn all_spellings_of_an_absolute_path_are_one() {
    for (spelled, path) in [
        ("/pods/r/mount", "/pods/r/mount"),
        ("/pods//r/mount", "/pods/r/mount"),
        ("//pods/r///mount//", "/pods/r/mount"),
        ("/pods/r/mount/", "/pods/r/mount"),
        ("/", "/"),
        ("///", "/"),
    ] {
        let taken = NodePath::parse("target_path", spelled).unwrap();
        assert_eq!(taken.as_str(), path);
        // A path that crosses the process boundary is normalised too.
        assert_eq!(NodePath::try_from(spelled.to_owned()).unwrap(), taken);
    }
}

#[test]
fn a_path_that_may_lead_elsewhere_stays_as_it_is() {
    for path in ["some//path/", "./a", "/a/./b", "/a/../b", "/a/..", "/a b"] {
        assert_eq!(NodePath::parse("path", path).unwrap().as_str(), path);
    }
    assert!(NodePath::parse("path", "/".repeat(4096)).is_err());
    assert!(NodePath::try_from(String::new()).is_err());
}

#[test]
fn an_identifier_is_bounded_and_without_nul() {
    let refused = |text: &str| VolumeId::parse("volume_id", text).unwrap_err().to_string();
    assert!(VolumeId::parse("volume_id", "v".repeat(1024)).is_ok());
    assert_eq!(
        refused(&"v".repeat(1025)),
        "volume_id is 1025 bytes long, at most 1024 are allowed"
    );
    assert_eq!(refused(""), "volume_id is empty");
    assert_eq!(refused("a\0"), "volume_id contains a NUL byte");
}

#[test]
fn a_name_has_the_length_and_characters_of_the_specification() {
    let name = |text: &str| RequestedName::parse("name", text).is_ok();
    assert!(name(&"n".repeat(128)) && !name(&"n".repeat(129)));
    let banned = (0..=8)
        .chain([0xB, 0xC])
        .chain(0xE..=0x1F)
        .chain(0x7F..=0x9F);
    let banned: Vec<char> = banned.filter_map(char::from_u32).collect();
    for character in (0..=0x2FF).filter_map(char::from_u32) {
        let is_taken = name(&format!("a{character}b"));
        assert_eq!(is_taken, !banned.contains(&character), "{character:?}");
    }
}

#[test]
fn deserialising_validates_every_name() {
    fn read<T: serde::de::DeserializeOwned>(json: &str) -> bool {
        serde_json::from_str::<T>(json).is_ok()
    }
    for (json, volume, driver, path) in [
        (r#""a""#, true, true, true),
        (r#""""#, false, false, false),
        (r#""a\u0000b""#, false, false, false),
        (r#""..""#, true, false, true),
        (r#""../a""#, true, false, true),
        (r#"7"#, false, false, false),
    ] {
        assert_eq!(read::<VolumeId>(json), volume, "{json}");
        assert_eq!(read::<NodeId>(json), volume, "{json}");
        assert_eq!(read::<DriverName>(json), driver, "{json}");
        assert_eq!(read::<NodePath>(json), path, "{json}");
    }
    let long = serde_json::to_string(&"v".repeat(INCOMING_IDENTIFIER_BYTES + 1)).unwrap();
    assert!(!read::<VolumeId>(&long));
    let kept = VolumeId::parse("volume_id", "a/b").unwrap();
    assert_eq!(serde_json::to_string(&kept).unwrap(), r#""a/b""#);
}

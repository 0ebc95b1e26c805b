//! Mount options that are accepted, that need a grant, and that are never accepted.

use super::*;
use proptest::prelude::*;

fn unlabelled<'w>(words: &[&'w str]) -> RequestedOptions<'w> {
    RequestedOptions {
        options: words.to_vec(),
        label: None,
    }
}

fn directory(granted: &[&str], words: &[&str]) -> Result<CheckedOptions, MountError> {
    let granted: Vec<String> = granted.iter().map(|word| (*word).to_owned()).collect();
    let allowed = Allowed {
        step: "directory",
        granted: &granted,
        fs_type: None,
        labels: None,
    };
    allowed.check(&unlabelled(words))
}

fn file_system(granted: &[&str], words: &[&str]) -> Result<CheckedOptions, MountError> {
    let granted: Vec<String> = granted.iter().map(|word| (*word).to_owned()).collect();
    let allowed = Allowed {
        step: "tmpfs",
        granted: &granted,
        fs_type: Some("tmpfs"),
        labels: Some(false),
    };
    allowed.check(&unlabelled(words))
}

const SAFE: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

#[test]
fn without_options_a_mount_is_nosuid_and_nodev() {
    assert_eq!(directory(&[], &[]).unwrap().flags.set, SAFE);
    assert_eq!(directory(&[], &["rw", "relatime"]).unwrap().flags.set, SAFE);
}

#[test]
fn harmless_options_become_flags() {
    let checked = directory(&[], &["ro", "noexec", "noatime"]).unwrap();
    assert!(checked.flags.is_read_only());
    assert_eq!(
        checked.flags.set,
        SAFE | MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_NOATIME
    );
    assert_eq!(checked.flags.clear, MountAttrFlags::MOUNT_ATTR__ATIME);
}

#[test]
fn what_loosens_a_mount_needs_a_grant() {
    for word in ["suid", "dev", "exec"] {
        assert!(
            matches!(directory(&[], &[word]), Err(MountError::NotGranted { .. })),
            "{word}"
        );
        assert!(directory(&[word], &[word]).is_ok(), "{word}");
    }
    assert_eq!(
        directory(&["suid"], &["suid"]).unwrap().flags.set,
        MountAttrFlags::MOUNT_ATTR_NODEV
    );
    // The options are granted but not requested.
    assert_eq!(directory(&["suid", "dev"], &[]).unwrap().flags.set, SAFE);
}

#[test]
fn of_two_that_contradict_the_stricter_counts() {
    let both = directory(
        &["suid", "exec"],
        &["suid", "nosuid", "exec", "noexec", "ro", "rw"],
    )
    .unwrap()
    .flags;
    assert_eq!(
        both.set,
        SAFE | MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOEXEC
    );
}

#[test]
fn smuggled_options_are_refused_even_with_grants() {
    let granted = ["exec", "suid", "mode"];
    for word in [
        "",
        "exec,suid",
        "mode=0700,suid",
        "ro\0suid",
        "ro suid",
        "ro\nsuid",
        &"m".repeat(257),
    ] {
        assert!(
            matches!(
                file_system(&granted, &[word]),
                Err(MountError::Invalid { .. })
            ),
            "{word:?}"
        );
    }
    for word in ["upperdir=/etc", "SUID", "bind", "remount", "context=x"] {
        assert!(file_system(&granted, &[word]).is_err(), "{word:?}");
        assert!(directory(&granted, &[word]).is_err(), "{word:?}");
    }
    assert!(file_system(&["size"], &["size=1g"]).is_err());
}

#[test]
fn file_system_options_need_to_be_harmless_or_granted() {
    let own =
        |granted: &[&str], words: &[&str]| file_system(granted, words).map(|checked| checked.own);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(own(&[], &["mode=0700"]), Ok(vec![pair("mode", "0700")]));
    assert_eq!(
        own(&["huge"], &["huge=always"]),
        Ok(vec![pair("huge", "always")])
    );
    assert!(own(&[], &["huge=always"]).is_err());
}

#[test]
fn fstab_only_options_are_dropped() {
    let words = ["defaults", "_netdev", "nofail", "x-systemd.automount"];
    assert_eq!(file_system(&[], &words).unwrap().own, []);
    assert_eq!(directory(&[], &words).unwrap().flags.set, SAFE);
    for word in ["X-mount.mkdir", "default", "_netdev=1", "user"] {
        assert!(file_system(&[], &[word]).is_err(), "{word}");
    }
}

#[test]
fn a_panic_of_the_node_cannot_be_granted() {
    assert!(file_system(&["errors"], &["errors=continue"]).is_ok());
    assert!(matches!(
        file_system(&["errors"], &["errors=panic"]),
        Err(MountError::Invalid { .. })
    ));
}

#[test]
fn a_refusal_does_not_repeat_a_value() {
    let words = [
        "password=hunter22",
        "password=hunter22,x",
        "x,password=hunter22",
    ];
    for word in words {
        let text = format!("{:?}", file_system(&[], &[word]));
        assert!(!text.contains("hunter22"), "{text}");
    }
}

proptest! {
    #[test]
    fn nothing_that_was_not_granted_loosens_a_mount(words in prop::collection::vec("[a-z,= ]{0,12}|suid|dev|exec|rw", 0..6)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let Ok(checked) = directory(&[], &words) {
            prop_assert!(checked.flags.set.contains(SAFE));
            prop_assert!(checked.own.is_empty());
        }
    }
}

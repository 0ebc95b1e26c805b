//! Every content with every access: what is made, used or refused.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const RW: StorageAccess = StorageAccess::ReadWrite;

fn requested(wanted: FsType, is_named: bool) -> BlockFilesystem {
    BlockFilesystem {
        fs_type: wanted,
        is_named,
        options: FsType::ALL.map(|it| (it, Vec::new())).into(),
    }
}

/// Decides about a device that is never accessed.
fn decide(
    content: &Content,
    is_unfinished: bool,
    requested: &BlockFilesystem,
    access: StorageAccess,
) -> Result<Verdict, MountError> {
    let device = BlockDevice {
        file: tempfile::tempfile().unwrap().into(),
        number: crate::block::DeviceNumber { major: 7, minor: 0 },
        path: "/dev/loop0".into(),
        backing: None,
        storage: None,
        is_read_only: false,
    };
    super::decide(&device, content, is_unfinished, requested, access)
}

fn reason(refusal: &MountError) -> &str {
    match refusal {
        MountError::Unusable(reason) | MountError::Damaged(reason) => reason,
        other => panic!("{other}"),
    }
}

fn contents() -> Vec<Content> {
    let mut all = vec![
        Content::Blank,
        Content::Unsigned { at: 4096 },
        Content::Foreign("LVM2_member".to_owned()),
        Content::Ambivalent,
    ];
    for fs_type in FsType::ALL {
        all.extend([Content::Broken(fs_type), Content::Filesystem(fs_type)]);
    }
    all
}

#[test]
fn a_blank_device_gets_what_is_wanted_from_who_may_write() {
    for wanted in FsType::ALL {
        let made = decide(&Content::Blank, false, &requested(wanted, true), RW);
        assert_eq!(made, Ok(Verdict::Make(wanted)));
    }
    for access in [StorageAccess::ReadOnly, StorageAccess::Untouched] {
        for is_unfinished in [false, true] {
            let refused = decide(
                &Content::Blank,
                is_unfinished,
                &requested(FsType::Ext4, true),
                access,
            );
            assert!(reason(&refused.unwrap_err()).contains("writable access mode"));
        }
    }
}

#[test]
fn a_file_system_that_is_there_is_used_unless_another_is_named() {
    for found in FsType::ALL {
        for wanted in FsType::ALL {
            let content = Content::Filesystem(found);
            let by_default = decide(&content, false, &requested(wanted, false), RW);
            assert_eq!(by_default, Ok(Verdict::Use(found)));
            let named = decide(&content, false, &requested(wanted, true), RW);
            match named {
                Ok(verdict) => assert_eq!((verdict, found), (Verdict::Use(found), wanted)),
                Err(refusal) => {
                    assert_ne!(found, wanted);
                    assert!(reason(&refusal).contains(found.name()));
                }
            }
        }
    }
}

#[test]
fn a_file_system_that_does_not_take_the_options_is_refused() {
    let requested = BlockFilesystem {
        options: BTreeMap::from([(FsType::Ext4, Vec::new())]),
        ..requested(FsType::Ext4, false)
    };
    let refused = decide(&Content::Filesystem(FsType::Xfs), false, &requested, RW);
    assert!(reason(&refused.unwrap_err()).contains("mount options"));
}

#[test]
fn what_an_mkfs_of_ours_left_unfinished_is_made_again() {
    let requested = requested(FsType::Xfs, true);
    for content in [
        Content::Blank,
        Content::Unsigned { at: 0 },
        Content::Broken(FsType::Xfs),
        Content::Filesystem(FsType::Xfs),
    ] {
        let made = decide(&content, true, &requested, RW);
        assert_eq!(made, Ok(Verdict::Make(FsType::Xfs)), "{content:?}");
    }
}

#[test]
fn what_is_damaged_or_unclear_is_left_to_a_person() {
    let requested = requested(FsType::Ext4, true);
    let refused = |content| decide(&content, false, &requested, RW).unwrap_err();
    assert!(matches!(
        refused(Content::Broken(FsType::Ext4)),
        MountError::Damaged { .. }
    ));
    for (content, word) in [
        (Content::Unsigned { at: 4097 }, "byte 4097"),
        (Content::Ambivalent, "several signatures"),
        (Content::Foreign("crypto_LUKS".to_owned()), "crypto_LUKS"),
    ] {
        let refusal = refused(content);
        assert!(
            matches!(&refusal, MountError::Unusable(reason) if reason.contains(word)),
            "{refusal:?}"
        );
    }
}

proptest! {
    #[test]
    fn only_blank_or_unfinished_devices_are_formatted(
        content in prop::sample::select(contents()),
        is_unfinished: bool,
        wanted in prop::sample::select(&FsType::ALL),
        is_named: bool,
        access in prop::sample::select(&[RW, StorageAccess::ReadOnly, StorageAccess::Untouched]),
    ) {
        let decided = decide(&content, is_unfinished, &requested(wanted, is_named), access);
        if let Ok(Verdict::Make(fs_type)) = decided {
            prop_assert_eq!(fs_type, wanted);
            prop_assert_eq!(access, RW);
            prop_assert!(content == Content::Blank || is_unfinished);
            prop_assert!(!matches!(content, Content::Foreign(_) | Content::Ambivalent));
        }
        if let Ok(Verdict::Use(fs_type)) = decided {
            prop_assert_eq!(content, Content::Filesystem(fs_type));
            prop_assert!(fs_type == wanted || !is_named);
        }
    }
}

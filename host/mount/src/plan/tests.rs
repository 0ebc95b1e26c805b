//! Plans against grants.

mod labels;
mod sealed;

use super::*;
use labels::tmpfs;
use proptest::prelude::*;
use rustix::mount::MountAttrFlags;
use wasmount_core::document::{PoolGrant, PoolStorage};
use wasmount_core::plan::PlanFile;

fn grants() -> Grants {
    let pool = PoolGrant {
        storage: PoolStorage::Directory("/srv/pool".into()),
        full_copies: false,
        mount_options: vec!["suid".to_owned()],
    };
    let tmpfs = wasmount_core::document::FilesystemGrant {
        fs_type: "tmpfs".to_owned(),
        sources: Vec::new(),
        mount_options: vec!["huge".to_owned()],
        max_bytes: Some(100),
    };
    Grants {
        pools: BTreeMap::from([("main".to_owned(), pool)]),
        filesystems: vec![tmpfs],
        ..Grants::default()
    }
}

fn plan(source: Source) -> Plan {
    Plan {
        source,
        default_fs_type: None,
        mount_options: Vec::new(),
        notes: BTreeMap::new(),
        luks: None,
    }
}

fn tree(pool: &str, path: &str) -> Plan {
    plan(Source::Directory {
        pool: pool.to_owned(),
        path: path.to_owned(),
    })
}

fn mounted(access: MountAccess) -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(access),
        access_mode: AccessMode::SingleNodeWriter,
    }
}

fn plain() -> VolumeCapability {
    mounted(MountAccess::default())
}

fn variant<T: std::fmt::Debug>(result: Result<T, MountError>) -> &'static str {
    match result {
        Ok(_) => "taken",
        Err(MountError::NotGranted { .. }) => "not granted",
        Err(MountError::Invalid { .. }) => "invalid",
        Err(MountError::Unsupported { .. }) => "unsupported",
        Err(_) => "other",
    }
}

#[test]
fn a_tree_of_a_granted_pool_is_taken_and_of_another_is_not() {
    let checked = check(&tree("main", "a/b"), &plain(), false, &grants()).unwrap();
    let CheckedSource::Directory(found) = checked.source else {
        panic!("{checked:?}");
    };
    assert_eq!(found.directory, PathBuf::from("/srv/pool"));
    assert_eq!(found.path.as_str(), "a/b");
    let refused = check(&tree("other", "a"), &plain(), false, &grants());
    assert_eq!(variant(refused), "not granted");
    let refused = check(&tree("main", "a"), &plain(), false, &Grants::default());
    assert_eq!(variant(refused), "not granted");
}

#[test]
fn a_tree_that_is_not_below_the_pool_is_refused() {
    for path in [
        "",
        "/",
        "/a",
        "..",
        "a/../b",
        "a//b",
        "a/",
        ".",
        "a\0",
        ".wasmount/x",
    ] {
        let refused = check(&tree("main", path), &plain(), false, &grants());
        assert_eq!(variant(refused), "invalid", "{path:?}");
    }
}

#[test]
fn a_tmpfs_is_never_larger_than_granted() {
    let size = |wanted| match check(&tmpfs(wanted), &plain(), false, &grants())?.source {
        CheckedSource::Tmpfs(options) => Ok(options
            .iter()
            .find(|(name, _)| name == "size")
            .map(|(_, size)| size.parse::<u64>().unwrap())),
        other => panic!("not a tmpfs: {other:?}"),
    };
    assert_eq!(size(Some(99)), Ok(Some(99)));
    assert_eq!(size(Some(100)), Ok(Some(100)));
    assert_eq!(size(None), Ok(Some(100)));
    assert!(matches!(
        size(Some(101)),
        Err(MountError::NotGranted { .. })
    ));
    assert!(matches!(size(Some(0)), Err(MountError::Invalid { .. })));
    let refused = check(&tmpfs(None), &plain(), false, &Grants::default());
    assert_eq!(variant(refused), "not granted");
}

#[test]
fn tmpfs_options_are_its_own_and_sizes_are_checked() {
    for (option, expected) in [
        ("mode=0700", "taken"),
        ("mode=1777", "taken"),
        ("uid=1000", "taken"),
        ("huge=always", "taken"),
        ("mode=4755", "not granted"),
        ("mode=x", "not granted"),
        ("uid=-1", "not granted"),
        ("mpol=bind", "not granted"),
        ("suid", "not granted"),
        ("size=1g", "invalid"),
        ("nr_blocks=9", "invalid"),
        ("mode=0700,size=1g", "invalid"),
    ] {
        let mut plan = tmpfs(None);
        plan.mount_options = vec![option.to_owned()];
        let from_plan = check(&plan, &plain(), false, &grants());
        assert_eq!(variant(from_plan), expected, "{option}");
        let capability = mounted(MountAccess {
            mount_flags: vec![option.to_owned()],
            ..MountAccess::default()
        });
        let from_request = check(&tmpfs(None), &capability, false, &grants());
        assert_eq!(variant(from_request), expected, "{option}");
    }
}

#[test]
fn the_group_is_a_tmpfs_option_or_applied_to_a_tree() {
    let capability = |group: &str| {
        mounted(MountAccess {
            volume_mount_group: Some(group.to_owned()),
            ..MountAccess::default()
        })
    };
    let checked = check(&tmpfs(None), &capability("1000"), false, &grants()).unwrap();
    let CheckedSource::Tmpfs(found) = checked.source else {
        panic!("{checked:?}");
    };
    let gid = ("gid".to_owned(), "1000".to_owned());
    assert_eq!(found, [("size".to_owned(), "100".to_owned()), gid]);
    for group in ["", "root", "-1", "1,uid=0"] {
        let refused = check(&tmpfs(None), &capability(group), false, &grants());
        assert_eq!(variant(refused), "invalid", "{group:?}");
    }
    let tree = check(&tree("main", "a"), &capability("1"), false, &grants());
    assert_eq!(tree.unwrap().group, Some(1));
}

#[test]
fn a_mode_that_only_reads_makes_the_mount_read_only() {
    let mut capability = plain();
    let read_only = |capability: &VolumeCapability| {
        let checked = check(&tree("main", "a"), capability, false, &grants()).unwrap();
        checked.flags.is_read_only()
    };
    assert!(!read_only(&capability));
    capability.access_mode = AccessMode::MultiNodeReaderOnly;
    assert!(read_only(&capability));
}

#[test]
fn a_granted_option_counts_when_it_is_asked_for() {
    let suid = |option: &str| {
        let mut plan = tree("main", "a");
        plan.mount_options = vec![option.to_owned()];
        let set = check(&plan, &plain(), false, &grants()).unwrap().flags.set;
        !set.contains(MountAttrFlags::MOUNT_ATTR_NOSUID)
    };
    assert!(suid("suid"));
    assert!(!suid("rw"));
}

#[test]
fn only_valid_file_system_type_names_are_accepted() {
    for (fs_type, expected) in [
        ("ext4", "taken"),
        ("fuse.s3fs", "taken"),
        ("", "invalid"),
        ("ext4,suid", "invalid"),
        ("../x", "invalid"),
        ("a b", "invalid"),
        (&"x".repeat(33), "invalid"),
    ] {
        let capability = mounted(MountAccess {
            fs_type: Some(fs_type.to_owned()),
            ..MountAccess::default()
        });
        let from_request = check(&tree("main", "a"), &capability, false, &grants());
        assert_eq!(variant(from_request), expected, "{fs_type:?}");
        let mut plan = tree("main", "a");
        plan.default_fs_type = Some(fs_type.to_owned());
        assert_eq!(variant(check(&plan, &plain(), false, &grants())), expected);
    }
}

fn image() -> Plan {
    plan(Source::Image {
        pool: "main".to_owned(),
        path: "a".to_owned(),
    })
}

fn block_filesystem(plan: &Plan, fs_type: Option<&str>) -> Result<BlockFilesystem, MountError> {
    let capability = mounted(MountAccess {
        fs_type: fs_type.map(str::to_owned),
        ..MountAccess::default()
    });
    match check(plan, &capability, false, &grants())?.source {
        CheckedSource::Image(_, Form::Filesystem(filesystem)) => Ok(filesystem),
        other => panic!("not a file system on an image: {other:?}"),
    }
}

#[test]
fn the_request_type_beats_the_plan_and_the_plan_the_default() {
    let with_default = Plan {
        default_fs_type: Some("btrfs".to_owned()),
        ..image()
    };
    for (plan, fs_type, wanted, is_named) in [
        (image(), None, FsType::Ext4, false),
        (with_default.clone(), None, FsType::Btrfs, false),
        (with_default, Some("xfs"), FsType::Xfs, true),
    ] {
        let filesystem = block_filesystem(&plan, fs_type).unwrap();
        assert_eq!(
            (filesystem.fs_type, filesystem.is_named),
            (wanted, is_named)
        );
    }
    for fs_type in ["ext3", "ntfs", "EXT4", "ext4,suid", ""] {
        let refused = block_filesystem(&image(), Some(fs_type));
        assert_eq!(variant(refused), "invalid", "{fs_type}");
    }
}

#[test]
fn options_not_of_the_type_are_omitted() {
    let with = |option: &str| Plan {
        mount_options: vec![option.to_owned()],
        ..image()
    };
    let types = |option| -> Vec<FsType> {
        let filesystem = block_filesystem(&with(option), None).unwrap();
        filesystem.options.into_keys().collect()
    };
    assert_eq!(types("discard"), FsType::ALL);
    assert_eq!(types("data=ordered"), [FsType::Ext4]);
    for option in [
        "allocsize=1m",
        "journal_dev=8:1",
        "loop=/dev/loop0",
        "upperdir=/",
    ] {
        let refused = block_filesystem(&with(option), None);
        assert!(refused.is_err(), "{option}");
    }
}

#[test]
fn a_raw_image_needs_no_file_system_and_its_device_must_work() {
    let capability = VolumeCapability {
        access_type: AccessType::Block,
        access_mode: AccessMode::SingleNodeWriter,
    };
    let plan = Plan {
        default_fs_type: Some("anything".to_owned()),
        ..image()
    };
    let checked = check(&plan, &capability, false, &grants()).unwrap();
    assert!(matches!(checked.source, CheckedSource::Image(_, Form::Raw)));
    assert!(
        checked
            .flags
            .clear
            .contains(MountAttrFlags::MOUNT_ATTR_NODEV)
    );
    assert!(!checked.flags.set.contains(MountAttrFlags::MOUNT_ATTR_NODEV));
    // Only one of its options has a meaning for a raw device.
    assert!(!checked.flags.is_read_only());
    let for_reading = Plan {
        mount_options: vec!["discard".to_owned(), "ro".to_owned()],
        ..plan
    };
    let checked = check(&for_reading, &capability, false, &grants()).unwrap();
    assert!(checked.flags.is_read_only());
}

#[test]
fn what_may_happen_to_the_storage_follows_from_mode_and_request() {
    let access = |access_mode, readonly| {
        let capability = VolumeCapability {
            access_mode,
            ..plain()
        };
        check(&image(), &capability, readonly, &grants())
            .unwrap()
            .access
    };
    use StorageAccess::{ReadOnly, ReadWrite, Untouched};
    for (mode, readonly, expected) in [
        (AccessMode::SingleNodeWriter, false, ReadWrite),
        (AccessMode::MultiNodeMultiWriter, false, ReadWrite),
        (AccessMode::SingleNodeWriter, true, ReadOnly),
        (AccessMode::SingleNodeReaderOnly, false, ReadOnly),
        (AccessMode::MultiNodeReaderOnly, false, Untouched),
        (AccessMode::MultiNodeReaderOnly, true, Untouched),
    ] {
        assert_eq!(access(mode, readonly), expected, "{mode:?} {readonly}");
    }
}

#[test]
fn files_take_flags_and_no_other_option() {
    let files = |option: &str| Plan {
        mount_options: vec![option.to_owned()],
        ..plan(Source::Files {
            files: vec![PlanFile {
                path: "a".to_owned(),
                mode: 0o400,
                content: Vec::new(),
            }],
        })
    };
    assert!(check(&files("ro"), &plain(), false, &grants()).is_ok());
    for option in ["suid", "size=1g"] {
        let refused = check(&files(option), &plain(), false, &grants());
        assert!(refused.is_err(), "{option}");
    }
}

#[test]
fn a_block_device_cannot_be_made_of_a_tree() {
    let capability = |access_type, access_mode| VolumeCapability {
        access_type,
        access_mode,
    };
    let writer = AccessMode::SingleNodeWriter;
    for (capability, expected) in [
        (capability(AccessType::Block, writer), "invalid"),
        (capability(AccessType::Other(9), writer), "unsupported"),
        (
            capability(
                AccessType::Mount(MountAccess::default()),
                AccessMode::Other(99),
            ),
            "unsupported",
        ),
    ] {
        let refused = check(&tree("main", "a"), &capability, false, &grants());
        assert_eq!(variant(refused), expected);
    }
}

proptest! {
    #[test]
    fn what_is_taken_was_granted(pool in "main|other|[a-z]{0,4}", path in "[a./\0]{0,8}", option in "[a-z=,]{0,8}|suid|dev|ro") {
        let mut plan = tree(&pool, &path);
        plan.mount_options = vec![option];
        if let Ok(checked) = check(&plan, &plain(), false, &grants()) {
            prop_assert_eq!(pool, "main");
            prop_assert!(checked.flags.set.contains(MountAttrFlags::MOUNT_ATTR_NODEV));
            let CheckedSource::Directory(tree) = checked.source else {
                return Err(TestCaseError::fail("not a tree"));
            };
            let parts = std::path::Path::new(tree.path.as_str()).components();
            for part in parts {
                prop_assert!(matches!(part, std::path::Component::Normal(_)));
            }
        }
    }
}

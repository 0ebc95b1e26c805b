//! Plans against grants.

use super::*;
use proptest::prelude::*;
use rustix::mount::MountAttrFlags;
use std::collections::BTreeMap;
use wasmount_core::plan::PlanFile;

fn grants() -> Grants {
    let pool = PoolGrant {
        path: "/srv/pool".into(),
        full_copies: false,
        mount_options: vec!["suid".to_owned()],
    };
    let tmpfs = FilesystemGrant {
        fs_type: "tmpfs".to_owned(),
        sources: Vec::new(),
        mount_options: vec!["huge".to_owned()],
        max_bytes: Some(100),
    };
    Grants {
        pools: BTreeMap::from([("main".to_owned(), pool)]),
        filesystems: vec![tmpfs],
    }
}

fn plan(source: Source) -> Plan {
    Plan {
        source,
        default_fs_type: None,
        mount_options: Vec::new(),
        notes: BTreeMap::new(),
    }
}

fn tree(pool: &str, path: &str) -> Plan {
    plan(Source::Directory {
        pool: pool.to_owned(),
        path: path.to_owned(),
    })
}

fn tmpfs(size_bytes: Option<u64>) -> Plan {
    plan(Source::Tmpfs { size_bytes })
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

fn variant(result: Result<CheckedPlan, MountError>) -> &'static str {
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
    let checked = check(&tree("main", "a/b"), &plain(), &grants()).unwrap();
    let CheckedSource::Directory(found) = checked.source else {
        panic!("{checked:?}");
    };
    assert_eq!(found.directory, PathBuf::from("/srv/pool"));
    assert_eq!(found.path.as_str(), "a/b");
    let refused = check(&tree("other", "a"), &plain(), &grants());
    assert_eq!(variant(refused), "not granted");
    let refused = check(&tree("main", "a"), &plain(), &Grants::default());
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
        let refused = check(&tree("main", path), &plain(), &grants());
        assert_eq!(variant(refused), "invalid", "{path:?}");
    }
}

#[test]
fn a_tmpfs_is_never_larger_than_granted() {
    let size = |wanted| match check(&tmpfs(wanted), &plain(), &grants())?.source {
        CheckedSource::Tmpfs(tmpfs) => Ok(tmpfs.size_bytes),
        CheckedSource::Directory(_) => panic!("not a tmpfs"),
    };
    assert_eq!(size(Some(99)), Ok(Some(99)));
    assert_eq!(size(Some(100)), Ok(Some(100)));
    assert_eq!(size(None), Ok(Some(100)));
    assert!(matches!(
        size(Some(101)),
        Err(MountError::NotGranted { .. })
    ));
    assert!(matches!(size(Some(0)), Err(MountError::Invalid { .. })));
    let refused = check(&tmpfs(None), &plain(), &Grants::default());
    assert_eq!(variant(refused), "not granted");
}

#[test]
fn options_of_a_tmpfs_are_its_own_and_sizes_cannot_be_smuggled_in() {
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
        let from_plan = check(&plan, &plain(), &grants());
        assert_eq!(variant(from_plan), expected, "{option}");
        let capability = mounted(MountAccess {
            mount_flags: vec![option.to_owned()],
            ..MountAccess::default()
        });
        let from_request = check(&tmpfs(None), &capability, &grants());
        assert_eq!(variant(from_request), expected, "{option}");
    }
}

#[test]
fn the_group_of_a_request_is_an_option_of_a_tmpfs_and_no_tree_has_one() {
    let capability = |group: &str| {
        mounted(MountAccess {
            volume_mount_group: Some(group.to_owned()),
            ..MountAccess::default()
        })
    };
    let checked = check(&tmpfs(None), &capability("1000"), &grants()).unwrap();
    let CheckedSource::Tmpfs(found) = checked.source else {
        panic!("{checked:?}");
    };
    assert_eq!(found.options, [("gid".to_owned(), "1000".to_owned())]);
    for group in ["", "root", "-1", "1,uid=0"] {
        let refused = check(&tmpfs(None), &capability(group), &grants());
        assert_eq!(variant(refused), "invalid", "{group:?}");
    }
    let refused = check(&tree("main", "a"), &capability("1"), &grants());
    assert_eq!(variant(refused), "unsupported");
}

#[test]
fn a_mode_that_only_reads_makes_the_mount_read_only() {
    let mut capability = plain();
    let read_only = |capability: &VolumeCapability| {
        let checked = check(&tree("main", "a"), capability, &grants()).unwrap();
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
        let set = check(&plan, &plain(), &grants()).unwrap().flags.set;
        !set.contains(MountAttrFlags::MOUNT_ATTR_NOSUID)
    };
    assert!(suid("suid"));
    assert!(!suid("rw"));
}

#[test]
fn a_name_of_a_file_system_type_is_taken_and_anything_else_refused() {
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
        let from_request = check(&tree("main", "a"), &capability, &grants());
        assert_eq!(variant(from_request), expected, "{fs_type:?}");
        let mut plan = tree("main", "a");
        plan.default_fs_type = Some(fs_type.to_owned());
        assert_eq!(variant(check(&plan, &plain(), &grants())), expected);
    }
}

#[test]
fn what_this_host_does_not_mount_yet_is_unsupported() {
    let file = PlanFile {
        path: "a".to_owned(),
        mode: 0o400,
        content: Vec::new(),
    };
    let (pool, path) = ("main".to_owned(), "a".to_owned());
    for source in [
        Source::Image { pool, path },
        Source::Device {
            facts: Vec::new(),
            wait_ms: 0,
        },
        Source::Filesystem {
            fs_type: "nfs4".to_owned(),
            source: "a:/b".to_owned(),
            options: Vec::new(),
            secret_options: Vec::new(),
        },
        Source::Files { files: vec![file] },
    ] {
        assert_eq!(
            variant(check(&plan(source), &plain(), &grants())),
            "unsupported"
        );
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
        let refused = check(&tree("main", "a"), &capability, &grants());
        assert_eq!(variant(refused), expected);
    }
}

proptest! {
    #[test]
    fn what_is_taken_was_granted(pool in "main|other|[a-z]{0,4}", path in "[a./\0]{0,8}", option in "[a-z=,]{0,8}|suid|dev|ro") {
        let mut plan = tree(&pool, &path);
        plan.mount_options = vec![option];
        if let Ok(checked) = check(&plan, &plain(), &grants()) {
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

//! Steps `filesystem` against grants.

mod shown;
mod types;

use super::*;
use crate::plan::filesystem::server::AddressFamily;
use crate::plan::label::{Label, is_label};
use proptest::prelude::*;
use rustix::mount::MountAttrFlags;

fn grant(fs_type: &str, sources: &[&str], mount_options: &[&str]) -> FilesystemGrant {
    FilesystemGrant {
        fs_type: fs_type.to_owned(),
        sources: strings(sources),
        mount_options: strings(mount_options),
        max_bytes: None,
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What the tests' driver may mount.
fn grants() -> Grants {
    Grants {
        filesystems: vec![
            grant("nfs4", &["server:/exports/*", "[fd00::1]:/a"], &["context"]),
            grant("cifs", &["//server/share/*", r"\\other\share"], &["noperm"]),
            grant("smb3", &["//server/share*"], &[]),
            grant(
                "overlay",
                &["overlay"],
                &["lowerdir", "upperdir", "workdir"],
            ),
            grant("9p", &["*"], &["token"]),
            grant("ext4", &["*"], &[]),
            grant("proc", &["*"], &[]),
            grant("fuse.sshfs", &["*"], &[]),
        ],
        ..Grants::default()
    }
}

/// Mount options of a request, as a plan passes them on.
fn asked<'w>(words: &[&'w str]) -> RequestedOptions<'w> {
    let flags: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    RequestedOptions {
        options: words
            .iter()
            .copied()
            .filter(|word| !is_label(word))
            .collect(),
        label: Label::of_flags(&flags).unwrap(),
    }
}

/// The step with its own options, mount options of the request, names of secret options, and a group.
fn checked(
    (fs_type, source): (&str, &str),
    options: &[&str],
    words: &[&str],
    secrets: &[&str],
    group: Option<u32>,
) -> Result<(CheckedFilesystem, MountFlags), MountError> {
    let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
    let secret = |name: &&str| ((*name).to_owned(), "a-secret".to_owned());
    let secret_options: Vec<(String, String)> = secrets.iter().map(secret).collect();
    let step = FilesystemStep {
        fs_type,
        source,
        options: &options,
        secret_options: &secret_options,
    };
    check(&step, asked(words), group, &grants())
}

fn source(fs_type: &str, source: &str) -> Result<CheckedFilesystem, MountError> {
    checked((fs_type, source), &[], &[], &[], None).map(|(filesystem, _)| filesystem)
}

fn options(
    of: (&str, &str),
    own: &[&str],
    words: &[&str],
) -> Result<Vec<(String, String)>, MountError> {
    checked(of, own, words, &[], None).map(|(filesystem, _)| filesystem.options)
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

const NFS: (&str, &str) = ("nfs4", "server:/exports/a");
const SMB: (&str, &str) = ("cifs", "//server/share/a");
const OVERLAY: (&str, &str) = ("overlay", "overlay");

#[test]
fn a_granted_step_becomes_kernel_options() {
    let (filesystem, flags) = checked(
        NFS,
        &["hard", "nconnect=4", "ro"],
        &["proto=tcp", "_netdev", "noexec"],
        &[],
        None,
    )
    .unwrap();
    assert_eq!(
        filesystem,
        CheckedFilesystem {
            fs_type: "nfs4".to_owned(),
            source: "server:/exports/a".to_owned(),
            options: pairs(&[
                ("hard", ""),
                ("nconnect", "4"),
                ("proto", "tcp"),
                ("vers", "4.2")
            ]),
            secret_names: Vec::new(),
            server: Some(Server {
                host: "server".to_owned(),
                option: "addr",
                family: Some(AddressFamily::V4),
            }),
            granted_sources: strings(&["server:/exports/*", "[fd00::1]:/a"]),
        }
    );
    assert!(flags.is_read_only());
    assert!(flags.set.contains(
        MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
    ));
}

#[test]
fn only_granted_types_are_mounted() {
    for fs_type in ["nfs", "ceph", "NFS4"] {
        assert!(
            matches!(
                source(fs_type, "server:/exports/a"),
                Err(MountError::NotGranted { .. })
            ),
            "{fs_type}"
        );
    }
    for fs_type in ["", "a/b", "a b", &"a".repeat(33)] {
        assert!(
            matches!(source(fs_type, "a"), Err(MountError::Invalid { .. })),
            "{fs_type}"
        );
    }
}

#[test]
fn types_that_are_no_storage_are_rejected_even_if_granted() {
    for (fs_type, reason) in [
        ("ext4", "`device`"),
        ("proc", "the node itself"),
        ("fuse.sshfs", "daemon"),
        ("tmpfs", "`tmpfs`"),
        ("cgroup2", "the node itself"),
        ("autofs", "daemon"),
    ] {
        let error = source(fs_type, "a").unwrap_err();
        assert!(
            matches!(error, MountError::Unsupported { .. }),
            "{fs_type}: {error}"
        );
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_source_must_match_a_pattern_to_the_letter() {
    for (fs_type, granted) in [
        ("nfs4", "server:/exports/a"),
        ("nfs4", "server:/exports/a/b..c/.d"),
        ("nfs4", "[fd00::1]:/a"),
        ("cifs", "//server/share/a"),
        ("cifs", r"\\server\share\a"),
        ("cifs", "//other/share"),
        ("9p", "tag"),
    ] {
        assert!(source(fs_type, granted).is_ok(), "{granted}");
    }
    for (fs_type, other) in [
        ("nfs4", "server:/exports"),
        ("nfs4", "server:/Exports/a"),
        ("nfs4", "server.evil:/exports/a"),
        ("nfs4", "[fd00::1]:/a/b"),
        ("nfs4", "[fd00:0::1]:/a"),
        ("cifs", "//server/share"),
        ("cifs", "//other/share/a"),
        ("overlay", "other"),
    ] {
        let error = source(fs_type, other).unwrap_err();
        assert!(
            matches!(error, MountError::NotGranted { .. }),
            "{other}: {error}"
        );
    }
}

#[test]
fn a_source_cannot_leave_its_pattern_again() {
    for (fs_type, smuggled) in [
        ("nfs4", "server:/exports/../etc"),
        ("nfs4", "server:/exports/.."),
        ("nfs4", r"server:/exports/a\..\b"),
        ("nfs4", "server:/exports/a\0b"),
        ("nfs4", "server:/exports/a\nb"),
        ("nfs4", ""),
        ("nfs4", &format!("server:/exports/{}", "a".repeat(240))),
        ("cifs", "//server/share/../other"),
        ("cifs", r"\\server\share\..\other"),
        ("cifs", r"\\server\share\a/../../other"),
        ("9p", ".."),
        ("9p", "a:.."),
    ] {
        let error = source(fs_type, smuggled).unwrap_err();
        assert!(
            matches!(error, MountError::Invalid { .. }),
            "{smuggled:?}: {error}"
        );
    }
}

#[test]
fn granted_options_are_taken_and_others_are_not() {
    let layers = ["lowerdir=/a", "upperdir=/b", "workdir=/c"];
    assert_eq!(
        options(OVERLAY, &layers, &[]),
        Ok(pairs(&[
            ("lowerdir", "/a"),
            ("upperdir", "/b"),
            ("workdir", "/c")
        ]))
    );
    assert!(options(SMB, &[], &["noperm", "seal"]).is_ok());
    for (of, word) in [
        (OVERLAY, "redirect_dir=on"),
        (NFS, "noperm"),
        (NFS, "upperdir=/etc"),
        (NFS, "suid"),
    ] {
        for result in [options(of, &[word], &[]), options(of, &[], &[word])] {
            assert!(
                matches!(result, Err(MountError::NotGranted { .. })),
                "{word}"
            );
        }
    }
}

#[test]
fn a_request_cannot_change_what_the_plan_says() {
    let twice = options(OVERLAY, &["upperdir=/b"], &["upperdir=/etc"]).unwrap_err();
    assert!(matches!(twice, MountError::Invalid { .. }), "{twice}");
    assert!(!twice.to_string().contains("/etc"), "{twice}");
    assert_eq!(
        options(OVERLAY, &["upperdir=/b"], &["upperdir=/b"]),
        Ok(pairs(&[("upperdir", "/b")]))
    );
    for word in [
        "addr=10.0.0.1",
        "source=other:/",
        "hard,addr=10.0.0.1",
        "vers=4.1\0",
    ] {
        let result = options(NFS, &[], &[word]);
        assert!(matches!(result, Err(MountError::Invalid { .. })), "{word}");
    }
}

#[test]
fn secret_options_are_stored_by_name_only() {
    let named = |of, secrets: &[&str]| {
        checked(of, &[], &[], secrets, None).map(|(filesystem, _)| filesystem.secret_names)
    };
    assert_eq!(
        named(SMB, &["username", "password"]),
        Ok(vec!["username".to_owned(), "password".to_owned()])
    );
    assert_eq!(named(("9p", "tag"), &["token"]), Ok(vec!["token".into()]));
    for (of, secrets) in [
        (NFS, &["password"][..]),
        (SMB, &["token"]),
        (OVERLAY, &["redirect_dir"]),
    ] {
        let result = named(of, secrets);
        assert!(
            matches!(result, Err(MountError::NotGranted { .. })),
            "{secrets:?}"
        );
    }
    for secrets in [&["ip"][..], &["password", "password"]] {
        let result = named(SMB, secrets);
        assert!(
            matches!(result, Err(MountError::Invalid { .. })),
            "{secrets:?}"
        );
    }
    let both = checked(SMB, &["username=a"], &[], &["username"], None);
    assert!(matches!(both, Err(MountError::Invalid { .. })));
}

#[test]
fn a_plain_secret_option_is_rejected_and_not_repeated() {
    let mut grants = grants();
    grants.filesystems = vec![grant("cifs", &["*"], &["password"])];
    let step = FilesystemStep {
        fs_type: "cifs",
        source: "//server/share",
        options: &["password=hunter22".to_owned()],
        secret_options: &[],
    };
    let error = check(&step, asked(&[]), None, &grants).unwrap_err();
    assert!(matches!(error, MountError::Invalid { .. }));
    assert!(error.to_string().contains("secret-options"), "{error}");
    assert!(!error.to_string().contains("hunter22"), "{error}");
}

#[test]
fn a_group_owns_a_share() {
    let group = |own: &[&str], group| {
        checked(SMB, own, &[], &[], Some(group)).map(|(filesystem, _)| filesystem.options)
    };
    assert_eq!(
        group(&[], 2000),
        Ok(pairs(&[
            ("gid", "2000"),
            ("forcegid", ""),
            ("file_mode", "0775"),
            ("dir_mode", "0775")
        ]))
    );
    assert_eq!(
        group(&["dir_mode=0770"], 0),
        Ok(pairs(&[
            ("dir_mode", "0770"),
            ("gid", "0"),
            ("forcegid", ""),
            ("file_mode", "0775")
        ]))
    );
    let both = group(&["gid=1"], 2000);
    assert!(matches!(both, Err(MountError::Invalid { .. })));
}

#[test]
fn a_group_of_what_a_server_owns_is_not_supported() {
    for of in [NFS, OVERLAY] {
        let result = checked(of, &[], &[], &[], Some(2000));
        assert!(
            matches!(result, Err(MountError::Unsupported { .. })),
            "{of:?}"
        );
    }
}

#[test]
fn a_line_of_the_mount_table_is_recognised() {
    let nfs = source("nfs4", "server:/exports/a/").unwrap();
    let smb = source("smb3", r"\\server\share").unwrap();
    assert!(same(&nfs, "nfs4", "server:/exports/a"));
    assert!(same(&nfs, "nfs", "server:/exports//a"));
    assert!(same(&smb, "cifs", "//server/share"));
    for (fs_type, other) in [
        ("nfs4", "server:/exports/b"),
        ("nfs4", "server:/exports"),
        ("cifs", "server:/exports/a"),
        ("ext4", "/dev/sda"),
    ] {
        assert!(!same(&nfs, fs_type, other), "{other}");
    }
    // Overlays of different directories have the same source.
    let overlay = source("overlay", "overlay").unwrap();
    assert!(!same(&overlay, "overlay", "overlay"));
}

proptest! {
    #[test]
    fn whatever_is_let_through_lies_below_its_pattern(rest in r"[a-c./\\: \n]{0,24}") {
        if let Ok(filesystem) = source("nfs4", &format!("server:/exports/{rest}")) {
            prop_assert!(filesystem.source.starts_with("server:/exports/"));
            prop_assert!(!filesystem.source.split('/').any(|segment| segment == ".."));
        }
    }
}

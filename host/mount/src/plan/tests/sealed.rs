//! Sealed options: the same options may be sealed that may be secrets.

use super::*;
use wasmount_core::document::FilesystemGrant;

fn checked(options: &[&str], sealed: &[&str]) -> Result<CheckedPlan, MountError> {
    let ceph = FilesystemGrant {
        fs_type: "ceph".to_owned(),
        sources: vec!["192.0.2.1:6789:/volumes/*".to_owned()],
        mount_options: Vec::new(),
        max_bytes: None,
    };
    let grants = Grants {
        filesystems: vec![ceph],
        ..Grants::default()
    };
    let text = |name: &&str| ((*name).to_owned(), "wasmount.sealed.v1:AAAA".to_owned());
    let plan = plan(Source::Filesystem {
        fs_type: "ceph".to_owned(),
        source: "192.0.2.1:6789:/volumes/a".to_owned(),
        options: options.iter().map(|it| (*it).to_owned()).collect(),
        secret_options: Vec::new(),
        backend_secret_options: Vec::new(),
        sealed_options: sealed.iter().map(text).collect(),
    });
    check(&plan, &plain(), false, &grants)
}

#[test]
fn a_sealed_option_is_a_secret_one_and_shows_no_text() {
    let plan = checked(&["name=a"], &["secret"]).unwrap();
    let CheckedSource::Filesystem(filesystem) = plan.source else {
        panic!("no file system");
    };
    assert_eq!(filesystem.secret_names, ["secret"]);
    assert!(!format!("{:?}", filesystem.options).contains("sealed"));
}

#[test]
fn a_sealed_option_not_granted_or_given_twice_is_refused() {
    for (options, sealed, refused) in [
        (&[][..], &["mon_addr"][..], "not granted"),
        (&[], &["secret", "secret"], "invalid"),
        (&["name=a"], &["name"], "invalid"),
    ] {
        assert_eq!(variant(checked(options, sealed)), refused, "{sealed:?}");
    }
}

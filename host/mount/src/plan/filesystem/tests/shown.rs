//! The source that a mount finally shows, against its grant.

use super::*;

/// Lines in the kernel's format: the resolved path of the tree that the server showed (`nfs_show_devname`), with links of the share resolved.
#[test]
fn a_source_that_leads_out_of_its_grant_is_refused() {
    let nfs = |asked: &str| CheckedFilesystem {
        fs_type: "nfs4".to_owned(),
        source: asked.to_owned(),
        options: Vec::new(),
        secret_names: Vec::new(),
        server: None,
        granted_sources: strings(&["server:/exports/*", "server:/one"]),
    };
    let shown = |source: &str| {
        let line = format!("9 1 0:50 / /t rw shared:3 - nfs4 {source} rw,vers=4.2,addr=192.0.2.1");
        crate::mountinfo::parse(line.as_bytes()).remove(0).source
    };
    for (asked, led_to) in [
        ("server:/exports/a", "server:/exports/a"),
        ("server:/exports/current", "server:/exports/v2"),
        ("server:/one", "server:/one"),
        ("server:/exports//a/", "server:/exports/a"),
        ("server:/exports/a\\040b", "server:/exports/a\\040b"),
    ] {
        assert_eq!(
            nfs(&shown(asked)).refuse_shown(&shown(led_to)),
            Ok(()),
            "{asked}"
        );
    }
    for (asked, led_to) in [
        // A link on the share, and a referral.
        ("server:/exports/link", "server:/secret"),
        ("server:/exports/link", "server:/"),
        ("server:/exports/link", "server:/exports"),
        ("server:/one", "server:/one/below"),
        ("server:/exports/moved", "other:/exports/moved"),
    ] {
        let refused = nfs(asked).refuse_shown(&shown(led_to)).unwrap_err();
        assert!(matches!(refused, MountError::NotGranted { .. }), "{asked}");
        assert!(refused.to_string().contains(led_to), "{refused}");
    }
}

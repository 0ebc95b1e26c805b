//! Syntax of paths, and the walk below a root.

use super::*;
use proptest::prelude::*;
use std::os::unix::fs::symlink;

fn roots() -> Roots {
    Roots::new(vec![
        PathRoot::Kubelet("/var/lib/kubelet".into()),
        PathRoot::Any("/var/lib/kubelet/pods/".into()),
        PathRoot::Any("/srv".into()),
    ])
}

fn reason(path: &str) -> String {
    match roots().check_text(path) {
        Err(MountError::OutsideRoots(text)) => {
            let (_, reason) = text.split_once(" is refused: ").unwrap();
            let (reason, _) = reason.rsplit_once("; paths must lie below ").unwrap();
            reason.to_owned()
        }
        other => panic!("{path:?}: {other:?}"),
    }
}

#[test]
fn a_path_below_a_root_is_taken_in_the_spelling_of_node_paths() {
    let longer = NodePath::parse("target_path", "//srv///a/b/").unwrap();
    assert_eq!(roots().check(&longer).unwrap().text(), "/srv/a/b");
    let long = format!("/srv/{}", "x".repeat(255));
    assert_eq!(roots().check_text(&long).unwrap().text(), long);
    for (path, text, root) in [
        ("/srv/a", "/srv/a", "/srv"),
        ("/srv/a/b", "/srv/a/b", "/srv"),
        (
            "/var/lib/kubelet/x y",
            "/var/lib/kubelet/x y",
            "/var/lib/kubelet",
        ),
        // The nearest root is used.
        (
            "/var/lib/kubelet/pods/a",
            "/var/lib/kubelet/pods/a",
            "/var/lib/kubelet/pods/",
        ),
        ("/srv/...", "/srv/...", "/srv"),
        ("/srv/a\\..\\b", "/srv/a\\..\\b", "/srv"),
    ] {
        let checked = roots().check_text(path).unwrap();
        assert_eq!(checked.text(), text);
        assert_eq!(checked.root.directory(), Path::new(root));
    }
}

#[test]
fn a_path_that_is_not_strictly_below_a_root_is_refused() {
    for path in ["some/path", "", "srv/a", "./srv/a", "~/a"] {
        assert_eq!(reason(path), "it is not absolute", "{path:?}");
    }
    for path in [
        "/srv/../etc",
        "/srv/a/..",
        "/srv/..",
        "/../srv/a",
        "/srv/./a",
        "/srv/a/.",
    ] {
        assert_eq!(reason(path), "it contains `.` or `..`", "{path:?}");
    }
    for path in [
        "/",
        "/etc/passwd",
        "/srvs/a",
        "/var/lib",
        "/var/lib/kubelets/a",
    ] {
        assert_eq!(reason(path), "it lies elsewhere", "{path:?}");
    }
    for path in ["/srv", "/srv/", "//srv//"] {
        assert_eq!(reason(path), "it is a root itself", "{path:?}");
    }
    assert_eq!(reason("/srv/a\0b"), "it contains a NUL byte");
    let long = "x".repeat(256);
    for path in [format!("/srv/{long}"), format!("/srv/{long}/a")] {
        assert_eq!(reason(&path), "a part of it is longer than 255 bytes");
    }
}

#[test]
fn no_link_below_a_root_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::create_dir_all(path("root/a/b")).unwrap();
    std::fs::create_dir(path("outside")).unwrap();
    std::fs::write(path("root/file"), "").unwrap();
    symlink(path("outside"), path("root/out")).unwrap();
    symlink("a", path("root/in")).unwrap();
    symlink(path("root"), path("link-to-root")).unwrap();
    let located = |root: &str, below: &str| {
        let roots = Roots::new(vec![PathRoot::Any(path(root))]);
        let text = path(root).join(below).to_str().unwrap().to_owned();
        roots.check_text(&text).unwrap().locate()
    };
    for root in ["root", "link-to-root"] {
        let location = located(root, "a/b").unwrap().unwrap();
        location.open().unwrap();
        for below in ["out/x", "in/b", "file/x"] {
            let refused = located(root, below);
            assert!(
                matches!(refused, Err(MountError::OutsideRoots { .. })),
                "{below}"
            );
        }
        for below in ["none/x", "a/none/x"] {
            assert!(located(root, below).unwrap().is_none(), "{below}");
        }
        // The parent is a real directory, and the name itself is a link.
        for below in ["out", "in"] {
            let location = located(root, below).unwrap().unwrap();
            assert_eq!(location.open().unwrap_err(), Errno::LOOP, "{below}");
        }
    }
    assert!(located("no-root", "x").unwrap().is_none());
}

#[test]
fn a_path_is_found_in_the_mount_table_under_the_roots_real_name() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().canonicalize().unwrap().join("real");
    std::fs::create_dir(&real).unwrap();
    let link = directory.path().join("link");
    symlink(&real, &link).unwrap();
    let checked = Roots::new(vec![PathRoot::Any(link.clone())])
        .check_text(link.join("a/b").to_str().unwrap())
        .unwrap();
    assert_eq!(checked.in_mount_table().unwrap(), Some(real.join("a/b")));
}

proptest! {
    #[test]
    fn a_taken_path_has_only_plain_parts_below_its_root(path in "(/srv|/etc|)?[/.a\\\\\0 ]{0,12}") {
        if let Ok(checked) = roots().check_text(&path) {
            let text = PathBuf::from(checked.text());
            let root = checked.root.directory();
            prop_assert!(text.starts_with(root) && text != root);
            let below = checked.parent.join(&checked.name);
            prop_assert_eq!(root.join(&below), text);
            for part in below.components() {
                prop_assert!(matches!(part, std::path::Component::Normal(_)));
            }
        }
    }
}

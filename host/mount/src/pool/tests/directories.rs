//! Trees and listings.

use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn a_tree_is_made_once_however_often_it_is_asked_for() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    std::fs::write(fixture.path("a/file"), "kept").unwrap();
    fixture.done(create("a"));
    fixture.done(create("a/b"));
    assert!(fixture.path("a/file").exists());
    let mode = std::fs::metadata(fixture.path("a")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755);
    assert_eq!(
        fixture.stat("a"),
        Some(PoolEntry {
            path: "a".to_owned(),
            kind: PoolEntryKind::Directory,
            size_bytes: 0,
            allocated_bytes: 0
        })
    );
}

#[test]
fn a_tree_is_not_made_over_something_else_or_in_nothing() {
    let fixture = Fixture::new();
    fixture.done(create_image("image", 4096));
    assert_eq!(kind(fixture.call(create("image"))), "otherwise there");
    assert_eq!(kind(fixture.call(create("image/a"))), "invalid");
    assert_eq!(kind(fixture.call(create("none/a"))), "not found");
}

#[test]
fn a_tree_is_removed_with_everything_in_it_and_nothing_else() {
    let fixture = Fixture::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("kept"), "").unwrap();
    fixture.done(create("a"));
    fixture.done(create("ab"));
    let inner = fixture.path("a/b/c");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("file"), "").unwrap();
    std::fs::create_dir(inner.join("empty")).unwrap();
    symlink(outside.path(), inner.join("link")).unwrap();
    std::os::unix::net::UnixListener::bind(fixture.path("a/socket")).unwrap();
    std::fs::write(fixture.path("a/dots.."), "").unwrap();
    fixture.done(remove("a"));
    fixture.done(remove("a"));
    fixture.done(remove("none/a"));
    assert_eq!(fixture.stat("a"), None);
    assert!(fixture.stat("ab").is_some());
    assert!(outside.path().join("kept").exists());
    fixture.wait_until_clear();
}

#[test]
fn what_is_no_tree_is_not_removed_as_one() {
    let fixture = Fixture::new();
    fixture.done(create_image("image", 4096));
    assert_eq!(kind(fixture.call(remove("image"))), "invalid");
    assert!(fixture.stat("image").is_some());
}

#[test]
fn what_a_volume_uses_is_neither_removed_nor_renamed() {
    let fixture = Fixture::new();
    for path in ["a", "a/b", "a/b/c", "ab"] {
        fixture.done(create(path));
    }
    fixture.used.0.lock().unwrap().push("a/b".to_owned());
    for path in ["a", "a/b", "a/b/c"] {
        assert_eq!(kind(fixture.call(remove(path))), "in use", "{path}");
        assert_eq!(kind(fixture.call(rename(path, "x"))), "in use", "{path}");
    }
    fixture.done(remove("ab"));
    fixture.used.0.lock().unwrap().clear();
    fixture.done(remove("a"));
}

#[test]
fn a_deep_tree_is_removed() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    // Deeper than a path can express and than the number of files that can be open.
    let mut directory = std::fs::File::open(fixture.path("a")).unwrap();
    let name = "d".repeat(60);
    for _ in 0..1500 {
        rustix::fs::mkdirat(&directory, &name, 0o700.into()).unwrap();
        let inner = rustix::fs::openat(
            &directory,
            &name,
            crate::confine::DIRECTORY,
            rustix::fs::Mode::empty(),
        );
        directory = inner.unwrap().into();
    }
    fixture.done(remove("a"));
    fixture.wait_until_clear();
}

#[test]
fn a_tree_of_10_000_entries_is_removed() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    fixture.fill("a", 100);
    fixture.done(remove("a"));
    fixture.wait_until_clear();
}

#[test]
fn unfinished_removals_and_copies_are_cleaned_at_start() {
    let fixture = Fixture::new();
    fixture.done(create("kept"));
    drop(fixture.pools);
    for folder in ["trash", "unfinished"] {
        let folder = fixture.directory.path().join("pool/.wasmount").join(folder);
        std::fs::create_dir_all(folder.join("x/y/z")).unwrap();
        std::fs::write(folder.join("x/file"), "").unwrap();
        std::fs::write(folder.join("image"), "").unwrap();
        symlink("/", folder.join("link")).unwrap();
    }
    let fixture = Fixture::below(fixture.directory, false);
    fixture.wait_until_clear();
    assert!(fixture.stat("kept").is_some());
}

#[test]
fn a_rename_happens_once_and_replaces_nothing() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    fixture.done(create("in"));
    std::fs::write(fixture.path("a/file"), "").unwrap();
    fixture.done(rename("a", "in/b"));
    assert!(fixture.path("in/b/file").exists());
    // The source is gone and the target exists, so an earlier call did it.
    fixture.done(rename("a", "in/b"));
    fixture.done(create("a"));
    assert_eq!(kind(fixture.call(rename("a", "in/b"))), "otherwise there");
    assert_eq!(kind(fixture.call(rename("none", "x"))), "not found");
    assert_eq!(kind(fixture.call(rename("a", "none/x"))), "not found");
    assert_eq!(kind(fixture.call(rename("a", "a/x"))), "invalid");
    assert_eq!(kind(fixture.call(rename("a", "a"))), "invalid");
}

#[test]
fn a_sync_succeeds_for_trees_that_are_there_or_gone() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    fixture.done(create("a/b"));
    for paths in [&["a", "a/b"][..], &["gone", "gone/too", "a"], &[]] {
        fixture.done(sync(paths));
    }
}

#[test]
fn a_sync_outside_the_pool_is_refused() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    std::os::unix::fs::symlink("/", fixture.path("link")).unwrap();
    for path in ["..", "/etc", ".wasmount", "link/etc"] {
        assert!(fixture.call(sync(&[path])).is_err(), "{path}");
    }
}

#[test]
fn permissions_are_set_on_a_tree() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    fixture.done(set_permissions("a", 0o2770));
    fixture.done(set_permissions("a", 0o2770));
    let mode = std::fs::metadata(fixture.path("a")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o2770);
}

#[test]
fn permissions_are_not_set_on_anything_else() {
    let fixture = Fixture::new();
    fixture.done(create_image("image", 4096));
    fixture.done(create("a"));
    assert_eq!(
        kind(fixture.call(set_permissions("image", 0o700))),
        "invalid"
    );
    assert_eq!(
        kind(fixture.call(set_permissions("none", 0o700))),
        "not found"
    );
    assert_eq!(kind(fixture.call(set_permissions("a", 0o10000))), "invalid");
    let nobody = PoolCall::SetPermissions {
        pool: "data".to_owned(),
        path: "a".to_owned(),
        mode: 0o700,
        uid: Some(u32::MAX),
        gid: None,
    };
    assert_eq!(kind(fixture.call(nobody)), "invalid");
}

#[test]
fn privileged_an_owner_is_set() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    let call = PoolCall::SetPermissions {
        pool: "data".to_owned(),
        path: "a".to_owned(),
        mode: 0o2770,
        uid: Some(1000),
        gid: Some(2000),
    };
    assert_eq!(
        fixture.call(call),
        Ok(PoolReply::Done),
        "changing an owner needs root (CAP_CHOWN)"
    );
    let status = std::fs::metadata(fixture.path("a")).unwrap();
    assert_eq!((status.uid(), status.gid()), (1000, 2000));
    assert_eq!(status.mode() & 0o7777, 0o2770);
}

fn names(reply: Result<PoolReply, MountError>) -> Vec<String> {
    match reply {
        Ok(PoolReply::List(entries)) => entries.into_iter().map(|entry| entry.path).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_listing_is_ordered_paged_and_hides_the_host_folder() {
    let fixture = Fixture::new();
    for path in ["b", "a", "c", "b/y", "b/x", "b/.wasmount"] {
        fixture.done(create(path));
    }
    assert_eq!(names(fixture.call(list("", None, 2))), ["a", "b"]);
    assert_eq!(names(fixture.call(list("", Some("b"), 2))), ["c"]);
    assert_eq!(names(fixture.call(list("", Some("aa"), 1))), ["b"]);
    assert!(names(fixture.call(list("", Some("c"), 2))).is_empty());
    assert!(names(fixture.call(list("", None, 0))).is_empty());
    assert_eq!(
        names(fixture.call(list("b", None, u32::MAX))),
        ["b/.wasmount", "b/x", "b/y"]
    );
    assert_eq!(kind(fixture.call(list("none", None, 1))), "not found");
}

#[test]
fn a_listing_shows_what_each_thing_is() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    fixture.done(create_image("a/image", 1 << 20));
    fixture.done(create("a/tree"));
    symlink("x", fixture.path("a/link")).unwrap();
    let Ok(PoolReply::List(entries)) = fixture.call(list("a", None, 10)) else {
        panic!("no list");
    };
    let kinds: Vec<_> = entries
        .into_iter()
        .map(|entry| (entry.kind, entry.size_bytes))
        .collect();
    assert_eq!(
        kinds,
        [
            (PoolEntryKind::Image, 1 << 20),
            (PoolEntryKind::Other("symbolic link".to_owned()), 0),
            (PoolEntryKind::Directory, 0),
        ]
    );
}

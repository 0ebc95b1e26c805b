//! Copies, on a file system that need not share blocks: full copies are granted where a test needs them.

use super::*;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

const MIB: u64 = 1 << 20;

fn image_with_data(fixture: &Fixture, path: &str) {
    fixture.done(create_image(path, 8 * MIB));
    let file = std::fs::File::options()
        .write(true)
        .open(fixture.path(path))
        .unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    file.write_all_at(b"middle", 4 * MIB).unwrap();
    file.write_all_at(b"end", 8 * MIB - 3).unwrap();
}

#[test]
fn a_copy_of_an_image_is_equal_and_as_sparse() {
    let fixture = Fixture::with(true);
    image_with_data(&fixture, "a");
    fixture.done(clone_image("a", "b"));
    let read = |path| std::fs::read(fixture.path(path)).unwrap();
    assert!(read("a") == read("b"));
    assert!(fixture.stat("b").unwrap().allocated_bytes < MIB);
    assert_eq!(fixture.promised(), 16 * MIB);
    fixture.wait_until_clear();
}

#[test]
fn a_retry_finds_its_copy_and_a_clash_is_rejected() {
    let fixture = Fixture::with(true);
    image_with_data(&fixture, "a");
    fixture.done(create_image("other", 8 * MIB));
    fixture.done(clone_image("a", "b"));
    fixture.done(clone_image("a", "b"));
    assert_eq!(
        kind(fixture.call(clone_image("other", "b"))),
        "otherwise there"
    );
    assert_eq!(
        kind(fixture.call(clone_image("a", "other"))),
        "otherwise there"
    );
    assert_eq!(
        kind(fixture.call(clone_directory("a", "b"))),
        "otherwise there"
    );
    let fixture = fixture.restarted();
    // The source may be gone when the retry is made; a new one at its path is another source.
    fixture.done(remove_image("a"));
    fixture.done(clone_image("a", "b"));
    fixture.done(create_image("a", 8 * MIB));
    assert_eq!(kind(fixture.call(clone_image("a", "b"))), "otherwise there");
    assert_eq!(kind(fixture.call(clone_image("none", "c"))), "not found");
}

#[test]
fn a_copy_under_way_is_not_begun_again() {
    let fixture = Fixture::with(true);
    image_with_data(&fixture, "a");
    let open = fixture.pools.open("data").unwrap();
    let (claim, _waiting) =
        copies::begin(&open.copies, &CopyRequest::Image(to_be_copied("a", "b"))).unwrap();
    assert_eq!(kind(fixture.call(clone_image("a", "b"))), "under way");
    // Its source remains too.
    assert_eq!(kind(fixture.call(remove_image("a"))), "in use");
    assert_eq!(kind(fixture.call(rename("a", "c"))), "in use");
    claim.unwrap().end(Ok(()));
    fixture.done(clone_image("a", "b"));
}

#[test]
fn a_copy_of_a_tree_is_like_it() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    fixture.done(set_permissions("a", 0o2750));
    let from = |path: &str| fixture.path("a").join(path);
    let to = |path: &str| fixture.path("b").join(path);
    std::fs::create_dir(from("inner")).unwrap();
    std::fs::write(from("inner/file"), "content").unwrap();
    std::fs::write(from("empty"), "").unwrap();
    std::fs::set_permissions(from("empty"), PermissionsExt::from_mode(0o4711)).unwrap();
    std::fs::hard_link(from("inner/file"), from("again")).unwrap();
    symlink("/etc/passwd", from("link")).unwrap();
    std::os::unix::net::UnixListener::bind(from("socket")).unwrap();
    let file = std::fs::File::open(from("inner/file")).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let has_attributes = rustix::fs::fsetxattr(&file, "user.a", b"b", flags).is_ok();
    let sparse = std::fs::File::create(from("sparse")).unwrap();
    sparse.set_len(8 * MIB).unwrap();
    sparse.write_all_at(b"x", 5 * MIB).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.set_times(std::fs::FileTimes::new().set_modified(old))
        .unwrap();
    std::fs::File::open(fixture.path("a"))
        .unwrap()
        .set_modified(old)
        .unwrap();

    fixture.done(clone_directory("a", "b"));

    let status = |path: PathBuf| std::fs::symlink_metadata(path).unwrap();
    for path in [
        "",
        "inner",
        "inner/file",
        "empty",
        "link",
        "socket",
        "sparse",
    ] {
        let (a, b) = (status(from(path)), status(to(path)));
        assert_eq!(a.mode(), b.mode(), "{path}");
        assert_eq!((a.uid(), a.gid()), (b.uid(), b.gid()), "{path}");
        assert_eq!(
            (a.mtime(), a.mtime_nsec()),
            (b.mtime(), b.mtime_nsec()),
            "{path}"
        );
        assert!(a.is_dir() || a.len() == b.len(), "{path}");
    }
    assert_eq!(std::fs::read(to("inner/file")).unwrap(), b"content");
    assert_eq!(status(to("again")).ino(), status(to("inner/file")).ino());
    assert_ne!(status(to("again")).ino(), status(from("again")).ino());
    assert_eq!(
        std::fs::read_link(to("link")).unwrap(),
        Path::new("/etc/passwd")
    );
    assert!(status(to("sparse")).blocks() * 512 < MIB);
    if has_attributes {
        let copy = std::fs::File::open(to("inner/file")).unwrap();
        let mut value = [0; 8];
        let length = rustix::fs::fgetxattr(&copy, "user.a", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"b");
    }
    fixture.done(clone_directory("a", "b"));
    fixture.wait_until_clear();
}

#[test]
fn a_tree_is_not_copied_into_itself_or_over_something() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    fixture.done(create("b"));
    fixture.done(create_image("image", MIB));
    for (source, target, expected) in [
        ("a", "a", "invalid"),
        ("a", "a/b", "invalid"),
        ("a", "b", "otherwise there"),
        ("none", "c", "not found"),
        ("a", "none/c", "not found"),
        ("image", "c", "invalid"),
    ] {
        let result = fixture.call(clone_directory(source, target));
        assert_eq!(kind(result), expected, "{source} to {target}");
    }
    fixture.wait_until_clear();
}

#[test]
fn a_tree_that_is_too_deep_leaves_nothing_behind() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    let deep = ["d"; copy::DEPTH + 2].join("/");
    std::fs::create_dir_all(fixture.path("a").join(deep)).unwrap();
    assert_eq!(kind(fixture.call(clone_directory("a", "b"))), "unsupported");
    assert_eq!(fixture.stat("b"), None);
    fixture.wait_until_clear();
}

#[test]
fn a_tree_of_10_000_entries_is_copied() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    fixture.fill("a", 100);
    fixture.done(clone_directory("a", "b"));
    let count = std::fs::read_dir(fixture.path("b/99")).unwrap().count();
    assert_eq!(count, 100);
}

#[test]
fn a_copy_of_hard_links_has_the_same_files_and_no_other_names() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    fixture.done(create("a/inner"));
    let path = |name: &str| fixture.path("a").join(name);
    std::fs::write(path("one"), "1").unwrap();
    std::fs::write(path("two"), "2").unwrap();
    symlink("nowhere", path("link")).unwrap();
    for (from, to) in [
        ("one", "inner/one"),
        ("one", "one-again"),
        ("two", "inner/two"),
        ("link", "inner/link"),
    ] {
        std::fs::hard_link(path(from), path(to)).unwrap();
    }
    // A further name outside of the tree.
    std::fs::hard_link(path("two"), fixture.path("outside")).unwrap();
    fixture.done(clone_directory("a", "b"));
    let status = |name: &str| std::fs::symlink_metadata(fixture.path("b").join(name)).unwrap();
    for (names, count) in [
        (&["one", "inner/one", "one-again"][..], 3),
        (&["two", "inner/two"], 2),
        (&["link", "inner/link"], 2),
    ] {
        let inode = status(names[0]).ino();
        for name in names {
            assert_eq!(
                (status(name).ino(), status(name).nlink()),
                (inode, count),
                "{name}"
            );
        }
    }
    assert_eq!(
        std::fs::read_to_string(fixture.path("b/inner/two")).unwrap(),
        "2"
    );
    let unfinished = std::fs::read_dir(fixture.path(".wasmount/unfinished")).unwrap();
    assert_eq!(unfinished.count(), 0);
}

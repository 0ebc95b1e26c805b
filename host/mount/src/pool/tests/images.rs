//! Images.

use super::*;
use std::os::unix::fs::MetadataExt;

const MIB: u64 = 1 << 20;

#[test]
fn an_image_is_sparse_and_made_once() {
    let fixture = Fixture::new();
    fixture.done(create_image("a", 64 * MIB));
    std::fs::File::options()
        .write(true)
        .open(fixture.path("a"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"kept"))
        .unwrap();
    fixture.done(create_image("a", 64 * MIB));
    let status = std::fs::metadata(fixture.path("a")).unwrap();
    assert_eq!((status.len(), status.mode() & 0o7777), (64 * MIB, 0o600));
    let entry = fixture.stat("a").unwrap();
    assert_eq!(
        (entry.kind, entry.size_bytes),
        (PoolEntryKind::Image, 64 * MIB)
    );
    assert!((4..MIB).contains(&entry.allocated_bytes));
    assert_eq!(&std::fs::read(fixture.path("a")).unwrap()[..4], b"kept");
    fixture.wait_until_clear();
}

#[test]
fn an_image_is_not_made_over_something_else() {
    let fixture = Fixture::new();
    fixture.done(create_image("a", MIB));
    fixture.done(create("tree"));
    assert_eq!(
        kind(fixture.call(create_image("a", 2 * MIB))),
        "otherwise there"
    );
    assert_eq!(
        kind(fixture.call(create_image("tree", MIB))),
        "otherwise there"
    );
    assert_eq!(kind(fixture.call(create_image("none/a", MIB))), "not found");
    assert_eq!(kind(fixture.call(create_image("b", 0))), "invalid");
    assert_eq!(fixture.promised(), MIB);
}

#[test]
fn an_image_only_grows() {
    let fixture = Fixture::new();
    fixture.done(create_image("a", MIB));
    fixture.done(resize_image("a", 2 * MIB));
    fixture.done(resize_image("a", 2 * MIB));
    assert_eq!(fixture.stat("a").unwrap().size_bytes, 2 * MIB);
    assert_eq!(fixture.promised(), 2 * MIB);
    assert_eq!(kind(fixture.call(resize_image("a", MIB))), "invalid");
    assert_eq!(kind(fixture.call(resize_image("none", MIB))), "not found");
    fixture.done(create("tree"));
    assert_eq!(kind(fixture.call(resize_image("tree", MIB))), "invalid");
    assert_eq!(fixture.stat("a").unwrap().size_bytes, 2 * MIB);
}

#[test]
fn a_named_pipe_is_no_image_and_does_not_block() {
    let fixture = Fixture::with(true);
    fixture.done(create_image("a", MIB));
    let pool = std::fs::File::open(fixture.path("")).unwrap();
    let kind_of_node = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(&pool, "pipe", kind_of_node, 0o600.into(), 0).unwrap();
    for call in [
        resize_image("pipe", MIB),
        remove_image("pipe"),
        clone_image("pipe", "b"),
    ] {
        assert_eq!(kind(fixture.call(call)), "invalid");
    }
    assert_eq!(
        kind(fixture.call(create_image("pipe", MIB))),
        "otherwise there"
    );
}

#[test]
fn an_image_is_removed_with_its_promise() {
    let fixture = Fixture::new();
    fixture.done(create_image("a", MIB));
    fixture.done(create("tree"));
    fixture.done(create_image("tree/b", MIB));
    assert_eq!(fixture.promised(), 2 * MIB);
    fixture.used.0.lock().unwrap().push("a".to_owned());
    assert_eq!(kind(fixture.call(remove_image("a"))), "in use");
    fixture.used.0.lock().unwrap().clear();
    fixture.done(remove_image("a"));
    fixture.done(remove_image("a"));
    fixture.done(remove_image("none/a"));
    assert_eq!(kind(fixture.call(remove_image("tree"))), "invalid");
    // An image in a tree is removed with the tree.
    fixture.done(remove("tree"));
    assert_eq!(fixture.promised(), 0);
}

#[test]
fn an_image_in_use_grows_and_is_copied_and_not_removed() {
    let fixture = Fixture::with(true);
    fixture.done(create("tree"));
    fixture.done(create_image("tree/a", MIB));
    fixture.used.0.lock().unwrap().push("tree/a".to_owned());
    fixture.done(resize_image("tree/a", 2 * MIB));
    fixture.done(clone_image("tree/a", "snapshot"));
    assert_eq!(fixture.stat("snapshot").unwrap().size_bytes, 2 * MIB);
    for call in [
        remove_image("tree/a"),
        rename("tree/a", "b"),
        remove("tree"),
        rename("tree", "b"),
    ] {
        assert_eq!(kind(fixture.call(call.clone())), "in use", "{call:?}");
    }
    assert_eq!(fixture.stat("tree/a").unwrap().size_bytes, 2 * MIB);
}

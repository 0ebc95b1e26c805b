//! Tests of the pool in memory: it gives, and it refuses with the host's codes.

use crate::error::{Code, Error};
use crate::pool::{Kind, Pool};
use crate::testing;

const POOL: Pool = Pool::named("volumes");
const TOTAL: u64 = 1000;

fn fresh() {
    testing::reset();
    testing::add_pool("volumes", TOTAL);
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

#[test]
fn directories_and_images_are_made_once_and_removed_once() {
    fresh();
    for _ in 0..2 {
        POOL.create_directory("a").unwrap();
        POOL.create_directory("a/b").unwrap();
        POOL.create_image("a/disk", 300).unwrap();
    }
    assert_eq!(testing::pool_paths("volumes"), ["a", "a/b", "a/disk"]);
    let disk = POOL.stat("a/disk").unwrap().unwrap();
    assert_eq!((disk.kind, disk.size_bytes), (Kind::Image, 300));
    for _ in 0..2 {
        POOL.remove_image("a/disk").unwrap();
        POOL.remove_directory("a").unwrap();
    }
    assert_eq!(POOL.stat("a"), Ok(None));
    assert_eq!(POOL.capacity().unwrap().available_bytes, TOTAL);
}

#[test]
fn what_is_there_otherwise_is_refused() {
    fresh();
    POOL.create_directory("a").unwrap();
    POOL.create_image("disk", 300).unwrap();
    for answer in [
        POOL.create_image("a", 300),
        POOL.create_image("disk", 301),
        POOL.create_directory("disk"),
        POOL.remove_directory("disk"),
        POOL.rename("a", "disk"),
        POOL.clone_image("disk", "a"),
    ] {
        assert_eq!(code(answer), Some(Code::AlreadyExists));
    }
}

#[test]
fn what_is_absent_is_not_found() {
    fresh();
    for answer in [
        POOL.create_directory("a/b"),
        POOL.resize_image("disk", 1),
        POOL.clone_directory("a", "b"),
        POOL.rename("a", "b"),
        POOL.set_permissions("a", 0o700, None, None),
        POOL.set_quota("a", Some(1)).map(drop),
        POOL.list("a", None, 10).map(drop),
    ] {
        assert_eq!(code(answer), Some(Code::NotFound));
    }
}

#[test]
fn a_path_that_leads_out_is_refused() {
    fresh();
    for path in [
        "",
        ".",
        "..",
        "/a",
        "a/",
        "a//b",
        "a/../b",
        "a\0",
        ".wasmount",
        ".wasmount/a",
    ] {
        assert_eq!(
            code(POOL.create_directory(path)),
            Some(Code::InvalidArgument),
            "{path:?}"
        );
    }
}

#[test]
fn a_pool_that_was_not_granted_is_denied() {
    fresh();
    assert_eq!(Pool::granted(), [POOL]);
    assert_eq!(
        code(Pool::named("others").capacity()),
        Some(Code::PermissionDenied)
    );
}

#[test]
fn promises_count_and_end_with_the_directory() {
    fresh();
    POOL.create_directory("a").unwrap();
    assert_eq!(POOL.set_quota("a", Some(600)), Ok(true));
    assert_eq!(POOL.set_quota("a", Some(700)), Ok(true));
    POOL.create_image("disk", 300).unwrap();
    assert_eq!(POOL.capacity().unwrap().available_bytes, 0);
    let full = Some(Code::ResourceExhausted);
    assert_eq!(code(POOL.set_quota("a", Some(701))), full);
    assert_eq!(code(POOL.resize_image("disk", 301)), full);
    assert_eq!(code(POOL.create_image("more", 1)), full);
    assert_eq!(testing::quota("volumes", "a"), Some(700));
    POOL.remove_directory("a").unwrap();
    assert_eq!(POOL.capacity().unwrap().available_bytes, 700);
}

#[test]
fn a_mode_is_set_or_refused() {
    fresh();
    POOL.create_directory("a").unwrap();
    assert_eq!(testing::mode("volumes", "a"), Some(0o755));
    POOL.set_permissions("a", 0o2770, None, Some(1000)).unwrap();
    assert_eq!(testing::mode("volumes", "a"), Some(0o2770));
    assert_eq!(
        code(POOL.set_permissions("a", 0o10000, None, None)),
        Some(Code::InvalidArgument)
    );
}

#[test]
fn an_image_only_grows() {
    fresh();
    POOL.create_image("disk", 300).unwrap();
    POOL.resize_image("disk", 400).unwrap();
    assert_eq!(
        code(POOL.resize_image("disk", 399)),
        Some(Code::InvalidArgument)
    );
}

#[test]
fn a_copy_has_all_that_the_source_has_and_may_be_repeated() {
    fresh();
    POOL.create_directory("a").unwrap();
    POOL.create_directory("a/b").unwrap();
    POOL.create_directory("ab").unwrap();
    for _ in 0..2 {
        POOL.clone_directory("a", "c").unwrap();
    }
    assert_eq!(
        testing::pool_paths("volumes"),
        ["a", "a/b", "ab", "c", "c/b"]
    );
    POOL.rename("c", "d").unwrap();
    assert_eq!(
        testing::pool_paths("volumes"),
        ["a", "a/b", "ab", "d", "d/b"]
    );
}

#[test]
fn a_list_shows_direct_children_page_by_page() {
    fresh();
    for path in ["a", "a/x", "b", "c"] {
        POOL.create_directory(path).unwrap();
    }
    let paths = |path, after| -> Vec<String> {
        let page = POOL.list(path, after, 2).unwrap();
        page.into_iter().map(|entry| entry.path).collect()
    };
    assert_eq!(paths("", None), ["a", "b"]);
    assert_eq!(paths("", Some("b")), ["c"]);
    assert_eq!(paths("a", None), ["a/x"]);
    assert_eq!(paths("a", Some("x")), Vec::<String>::new());
}

#[test]
fn from_the_chosen_call_on_all_fail_until_mended() {
    fresh();
    testing::fail_after(1, Error::unavailable("power cut"));
    assert_eq!(POOL.create_directory("a"), Ok(()));
    for _ in 0..2 {
        assert_eq!(code(POOL.create_directory("b")), Some(Code::Unavailable));
    }
    testing::mend();
    assert_eq!(testing::pool_paths("volumes"), ["a"]);
}

#[test]
fn all_of_an_image_may_hold_data_and_nothing_lies_behind_it() {
    fresh();
    POOL.create_image("base", 100).unwrap();
    POOL.create_image("disk", 300).unwrap();
    let asked = |offset| {
        [
            POOL.allocated_extents("disk", offset, 0),
            POOL.changed_extents("base", "disk", offset, 0),
        ]
    };
    for answer in asked(100) {
        let [rest] = answer.unwrap().ranges.try_into().unwrap();
        assert_eq!((rest.offset_bytes, rest.size_bytes), (100, 200));
    }
    for answer in asked(300) {
        assert_eq!(answer.unwrap().ranges.len(), 0);
    }
    for answer in asked(301) {
        assert_eq!(code(answer), Some(Code::OutOfRange));
    }
    let absent = POOL.allocated_extents("none", 0, 0);
    assert_eq!(code(absent), Some(Code::NotFound));
}

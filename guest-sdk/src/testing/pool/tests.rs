//! Tests of the pool in memory: it returns the host's results and error codes.

use crate::error::{Code, Error};
use crate::pool::{Content, Kind, Pool};
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

#[test]
fn what_is_there_is_copied_resized_and_removed_whichever_it_is() {
    fresh();
    POOL.create_directory("tree").unwrap();
    POOL.create_image("disk", 100).unwrap();
    for source in ["tree", "disk"] {
        POOL.copy(source, "copy").unwrap();
        POOL.resize("copy", 200).unwrap();
        let (copy, source) = (POOL.stat("copy").unwrap(), POOL.stat(source).unwrap());
        assert_eq!(copy.map(|it| it.kind), source.map(|it| it.kind));
        assert_eq!(POOL.capacity().unwrap().available_bytes, TOTAL - 300);
        for _ in 0..2 {
            POOL.remove("copy").unwrap();
        }
    }
    assert_eq!(testing::pool_paths("volumes"), ["disk", "tree"]);
    for answer in [POOL.copy("none", "copy"), POOL.resize("none", 1)] {
        assert_eq!(code(answer), Some(Code::NotFound));
    }
}

#[test]
fn a_pool_that_is_asked_for_was_granted_or_is_refused() {
    fresh();
    assert_eq!(POOL.must_be_granted(), Ok(()));
    let refused = code(Pool::named("others").must_be_granted());
    assert_eq!(refused, Some(Code::InvalidArgument));
}

#[test]
fn what_was_made_stays_unless_it_failed_for_good() {
    fresh();
    let made = |error: Option<Error>| {
        POOL.create_image("disk", 100).unwrap();
        code(POOL.keep("disk", error.map_or(Ok(()), Err)))
    };
    assert_eq!(made(None), None);
    assert_eq!(made(Some(Error::aborted(""))), Some(Code::Aborted));
    assert_eq!(testing::pool_paths("volumes"), ["disk"]);
    assert_eq!(made(Some(Error::not_found(""))), Some(Code::NotFound));
    assert_eq!(testing::pool_paths("volumes"), Vec::<String>::new());
}

#[test]
fn a_copy_is_whole_when_it_is_there() {
    fresh();
    POOL.create_image("a", 100).unwrap();
    assert_eq!(POOL.has_copied("a", "b"), Ok(true));
    testing::delay_copies();
    assert_eq!(POOL.has_copied("a", "c"), Ok(false));
    testing::lose_copies();
    assert_eq!(POOL.has_copied("a", "c"), Ok(false));
    testing::finish_copies(Ok(()));
    assert_eq!(POOL.has_copied("a", "c"), Ok(true));
    assert_eq!(code(POOL.has_copied("none", "d")), Some(Code::NotFound));
}

#[test]
fn several_copies_are_made_or_none() {
    fresh();
    POOL.create_image("a", 100).unwrap();
    let copies = |sources: [&str; 2]| {
        POOL.clone_images(&sources.map(|source| (source.to_owned(), format!("{source}-copy"))))
    };
    assert_eq!(code(copies(["a", "b"])), Some(Code::NotFound));
    assert_eq!(testing::pool_paths("volumes"), ["a"]);
    POOL.create_image("b", 100).unwrap();
    for _ in 0..2 {
        copies(["a", "b"]).unwrap();
    }
    assert_eq!(
        testing::pool_paths("volumes"),
        ["a", "a-copy", "b", "b-copy"]
    );
}

#[test]
fn a_copy_under_way_is_joined_and_keeps_what_it_needs() {
    fresh();
    POOL.create_image("a", 100).unwrap();
    POOL.create_image("b", 100).unwrap();
    testing::delay_copies();
    for _ in 0..2 {
        assert_eq!(code(POOL.clone_image("a", "copy")), Some(Code::Aborted));
    }
    assert_eq!(
        code(POOL.clone_image("b", "copy")),
        Some(Code::AlreadyExists)
    );
    assert_eq!(code(POOL.remove_image("a")), Some(Code::FailedPrecondition));
    assert_eq!(code(POOL.remove_image("copy")), Some(Code::Aborted));
    assert_eq!(code(POOL.rename("a", "c")), Some(Code::FailedPrecondition));
    assert_eq!(code(POOL.rename("copy", "c")), Some(Code::Aborted));
    testing::finish_copies(Ok(()));
    assert_eq!(POOL.clone_image("a", "copy"), Ok(()));
    assert_eq!(testing::pool_paths("volumes"), ["a", "b", "copy"]);
}

#[test]
fn a_failed_copy_is_reported_once_and_a_lost_one_not() {
    fresh();
    POOL.create_image("a", 100).unwrap();
    testing::delay_copies();
    let copy = || code(POOL.clone_image("a", "copy"));
    assert_eq!(copy(), Some(Code::Aborted));
    testing::finish_copies(Err(Error::resource_exhausted("the disk is full")));
    assert_eq!(copy(), Some(Code::ResourceExhausted));
    assert_eq!(copy(), Some(Code::Aborted));
    testing::lose_copies();
    assert_eq!(POOL.remove_image("a"), Ok(()));
    assert_eq!(testing::pool_paths("volumes"), Vec::<String>::new());
}

#[test]
fn extents_come_in_pages_and_end_with_the_image() {
    testing::reset();
    testing::add_pool("volumes", 1 << 40);
    POOL.create_image("disk", 1 << 30).unwrap();
    let page = POOL.allocated_extents("disk", 1 << 29, 1).unwrap();
    assert_eq!(page.ranges.len(), 1);
    assert_eq!(page.ranges[0].offset_bytes, 1 << 29);
    let rest = POOL.changed_extents("disk", "disk", page.next_offset.unwrap(), 9);
    assert_eq!(rest.unwrap().next_offset, None);
    let behind = POOL.allocated_extents("disk", (1 << 30) + 1, 1);
    assert_eq!(code(behind), Some(Code::OutOfRange));
}

#[test]
fn a_volume_is_made_from_nothing_or_from_its_like() {
    fresh();
    for kind in [Kind::Directory, Kind::Image] {
        POOL.create_volume(kind.clone(), "a", 100, None).unwrap();
        let from = Content::new(POOL, "a", 100);
        POOL.create_volume(kind.clone(), "b", 200, Some(&from))
            .unwrap();
        assert_eq!(
            POOL.stat("b").unwrap().map(|entry| entry.kind),
            Some(kind.clone())
        );
        assert_eq!(POOL.capacity().unwrap().available_bytes, TOTAL - 300);
        let other = match kind {
            Kind::Directory => Kind::Image,
            _ => Kind::Directory,
        };
        let refused = POOL.create_volume(other, "c", 200, Some(&from));
        assert_eq!(code(refused), Some(Code::InvalidArgument));
        let elsewhere = Content::new(Pool::named("others"), "a", 100);
        let refused = POOL.create_volume(kind, "c", 200, Some(&elsewhere));
        assert_eq!(code(refused), Some(Code::InvalidArgument));
        POOL.remove("a").unwrap();
        POOL.remove("b").unwrap();
    }
    assert_eq!(testing::pool_paths("volumes"), Vec::<String>::new());
}

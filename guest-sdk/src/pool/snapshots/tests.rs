//! Tests of snapshots in pools on the host in memory: single ones, groups, slow copies, and calls that are interrupted.

use super::*;
use crate::error::Code;
use crate::pool::Pool;
use crate::snapshots::tests::args;
use crate::volume::PageRequest;
use crate::{state, testing};

const POOL: Pool = Pool::named("volumes");
const SNAPSHOTS: Snapshots = Snapshots::new(here);
const GIB: u64 = 1 << 30;

fn here() -> Vec<Topology> {
    vec![Topology::of("rack", "7")]
}

/// A host with two images and a tree.
fn fresh() {
    testing::reset();
    testing::add_pool("volumes", 100 * GIB);
    POOL.create_image("a", GIB).unwrap();
    POOL.create_image("b", GIB).unwrap();
    POOL.create_directory("tree").unwrap();
}

fn content(volume: &str) -> Result<Content, Error> {
    match POOL.stat(volume)? {
        Some(found) => Ok(Content::new(POOL, volume, found.size_bytes)),
        None => Err(Error::not_found("no such volume")),
    }
}

fn taken(name: &str, volume: &str) -> Result<Snapshot, Error> {
    SNAPSHOTS.create(&args(name, volume), content)
}

fn together(name: &str, volumes: &[&str]) -> Result<GroupSnapshot, Error> {
    let volumes = volumes.iter().map(|it| (*it).to_owned()).collect();
    SNAPSHOTS.create_group(name, volumes, content)
}

/// Whether the group exists: then only its answer can have been lost.
fn is_whole(group: &str) -> bool {
    let id = SNAPSHOTS.groups.id(group);
    SNAPSHOTS.groups.find(&id).unwrap().is_some()
}

fn listed(source_volume: Option<&str>) -> Vec<Snapshot> {
    let args = ListSnapshotsArgs {
        source_volume: source_volume.map(str::to_owned),
        page: PageRequest {
            max_entries: None,
            starting_token: None,
        },
    };
    SNAPSHOTS.list(&args).unwrap().entries
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

fn left_behind() -> (Vec<String>, Vec<String>) {
    (testing::state_keys(), testing::pool_paths("volumes"))
}

#[test]
fn a_snapshot_outlives_its_volume() {
    fresh();
    for (name, volume) in [("s1", "a"), ("s2", "tree")] {
        let snapshot = taken(name, volume).unwrap();
        assert!(snapshot.ready_to_use);
        assert_eq!(snapshot.accessible_topology, here());
        POOL.remove(volume).unwrap();
        assert_eq!(taken(name, volume), Ok(snapshot.clone()));
        assert_eq!(SNAPSHOTS.get(&snapshot.id), Ok(snapshot.clone()));
        let id = snapshot.id.clone();
        assert_eq!(listed(Some(volume)), [snapshot]);
        assert_eq!(SNAPSHOTS.content(&id).map(|it| it.path), Ok(id.clone()));
        for _ in 0..2 {
            SNAPSHOTS.delete(&id).unwrap();
        }
        assert_eq!(code(SNAPSHOTS.get(&id)), Some(Code::NotFound));
    }
    assert_eq!(left_behind(), (vec![], vec!["b".to_owned()]));
    assert_eq!(listed(None), []);
}

#[test]
fn a_name_of_another_volume_and_an_unknown_volume_are_refused() {
    fresh();
    taken("s1", "a").unwrap();
    let there = left_behind();
    assert_eq!(code(taken("s1", "b")), Some(Code::AlreadyExists));
    assert_eq!(code(taken("s2", "none")), Some(Code::NotFound));
    assert_eq!(left_behind(), there);
}

#[test]
fn a_copy_that_takes_long_is_looked_after_until_it_ends() {
    fresh();
    testing::delay_copies();
    let snapshot = taken("s1", "a").unwrap();
    assert!(!snapshot.ready_to_use && !listed(None)[0].ready_to_use);
    let early = SNAPSHOTS.content(&snapshot.id);
    assert_eq!(code(early), Some(Code::FailedPrecondition));
    testing::lose_copies();
    let is_ready = || SNAPSHOTS.get(&snapshot.id).map(|it| it.ready_to_use);
    assert_eq!(is_ready(), Ok(false));
    testing::finish_copies(Ok(()));
    assert!(listed(None)[0].ready_to_use);
    assert_eq!(is_ready(), Ok(true));
}

#[test]
fn a_finally_failed_copy_is_no_snapshot() {
    for (error, afterwards) in [
        (Error::resource_exhausted("full"), Some(Code::NotFound)),
        (Error::unavailable("away"), None),
    ] {
        fresh();
        testing::delay_copies();
        let snapshot = taken("s1", "a").unwrap();
        testing::finish_copies(Err(error.clone()));
        assert_eq!(SNAPSHOTS.get(&snapshot.id), Err(error));
        assert_eq!(code(SNAPSHOTS.get(&snapshot.id)), afterwards);
    }
}

#[test]
fn a_pool_that_is_granted_no_more_loses_no_snapshot() {
    fresh();
    testing::delay_copies();
    let snapshot = taken("s1", "a").unwrap();
    testing::remove_pool("volumes");
    let denied = code(SNAPSHOTS.get(&snapshot.id));
    assert_eq!(denied, Some(Code::PermissionDenied));
    assert_eq!(testing::state_keys(), [snapshot.id]);
}

#[test]
fn what_was_ready_and_is_missing_is_not_copied_anew() {
    fresh();
    let snapshot = taken("s1", "a").unwrap();
    let known = SNAPSHOTS.get(&snapshot.id);
    POOL.remove(&snapshot.id).unwrap();
    assert_eq!(SNAPSHOTS.get(&snapshot.id), known);
    assert_eq!(POOL.stat(&snapshot.id), Ok(None));
}

#[test]
fn a_half_deleted_snapshot_is_not_answered_as_a_new_one() {
    fresh();
    let snapshot = taken("s1", "a").unwrap();
    let mut points = 0..;
    while POOL.stat(&snapshot.id).unwrap().is_some() {
        assert_eq!(taken("s1", "a"), Ok(snapshot.clone()));
        testing::fail_after(points.next().unwrap(), Error::unavailable("power cut"));
        SNAPSHOTS.delete(&snapshot.id).unwrap_err();
        testing::mend();
    }
    assert_eq!(code(taken("s1", "a")), Some(Code::Aborted));
    SNAPSHOTS.delete(&snapshot.id).unwrap();
    assert!(taken("s1", "a").unwrap().ready_to_use);
    assert!(POOL.stat(&snapshot.id).unwrap().is_some());
}

#[test]
fn a_half_deleted_group_is_not_answered_as_a_new_one() {
    let mut half_deleted = 0;
    for point in 0..32 {
        fresh();
        let group = together("g1", &["a", "b"]).unwrap();
        let whole = left_behind();
        testing::fail_after(point, Error::unavailable("power cut"));
        let deleted = SNAPSHOTS.delete_group(&group.id, &[]);
        testing::mend();
        if deleted.is_ok() {
            break;
        }
        let again = together("g1", &["a", "b"]);
        if left_behind() == whole {
            assert_eq!(again, Ok(group), "ended after {point} host calls");
            continue;
        }
        half_deleted += 1;
        assert_eq!(code(again), Some(Code::Aborted), "{point}");
        let shown = SNAPSHOTS.get_group(&group.id, &[]).map(|it| it.id);
        let are_listed = listed(None).len() == group.snapshots.len();
        match are_listed {
            true => assert_eq!(shown, Ok(group.id.clone()), "{point}"),
            false => assert_eq!(code(shown), Some(Code::Aborted), "{point}"),
        }
        SNAPSHOTS.delete_group(&group.id, &[]).unwrap();
        assert_eq!(
            together("g1", &["a", "b"]).map(|it| it.ready_to_use),
            Ok(true)
        );
    }
    // After the content and after the record of each of the two.
    assert!(half_deleted >= 4, "{half_deleted}");
}

#[test]
fn a_group_is_taken_shown_and_deleted_as_a_whole() {
    fresh();
    let there = left_behind();
    let group = together("g1", &["a", "b"]).unwrap();
    assert_eq!(together("g1", &["b", "a"]), Ok(group.clone()));
    let members: Vec<_> = group.snapshots.iter().map(|it| it.id.clone()).collect();
    assert_eq!(listed(None).len(), 2);
    assert_eq!(
        code(SNAPSHOTS.delete(&members[0])),
        Some(Code::InvalidArgument)
    );
    assert_eq!(SNAPSHOTS.get_group(&group.id, &members), Ok(group.clone()));
    for _ in 0..2 {
        SNAPSHOTS.delete_group(&group.id, &members).unwrap();
    }
    assert_eq!(left_behind(), there);
    let gone = SNAPSHOTS.get_group(&group.id, &[]);
    assert_eq!(code(gone), Some(Code::NotFound));
}

#[test]
fn a_group_that_cannot_be_leaves_nothing() {
    fresh();
    let there = left_behind();
    for (volumes, refusal) in [
        (vec![], Code::InvalidArgument),
        (vec!["a", "none"], Code::NotFound),
        (vec!["a", "tree"], Code::FailedPrecondition),
    ] {
        assert_eq!(code(together("g1", &volumes)), Some(refusal));
        assert_eq!(left_behind(), there, "{volumes:?}");
    }
    let group = together("g1", &["a"]).unwrap();
    assert_eq!(code(together("g1", &["b"])), Some(Code::AlreadyExists));
    let alien = [taken("s1", "a").unwrap().id];
    let shown = SNAPSHOTS.get_group(&group.id, &alien);
    assert_eq!(code(shown), Some(Code::InvalidArgument));
    let deleted = SNAPSHOTS.delete_group(&group.id, &alien);
    assert_eq!(code(deleted), Some(Code::InvalidArgument));
}

#[test]
fn blocks_are_compared_within_one_volume() {
    fresh();
    let [first, second] = ["s1", "s2"].map(|name| taken(name, "a").unwrap().id);
    let other = taken("s3", "b").unwrap().id;
    let tree = taken("s4", "tree").unwrap().id;
    let all = SNAPSHOTS.allocated(&first, 0, 0).unwrap();
    assert_eq!((all.volume_capacity_bytes, all.next_offset), (GIB, None));
    let page = SNAPSHOTS.changed(&first, &second, 0, 1).unwrap();
    assert_eq!((page.extents.len(), page.next_offset.is_some()), (1, true));
    let refused = Some(Code::InvalidArgument);
    assert_eq!(code(SNAPSHOTS.changed(&first, &other, 0, 1)), refused);
    assert_eq!(code(SNAPSHOTS.allocated(&tree, 0, 1)), refused);
    let behind = SNAPSHOTS.allocated(&first, GIB + 1, 1);
    assert_eq!(code(behind), Some(Code::OutOfRange));
}

#[test]
fn a_call_that_ends_half_way_is_completed_by_its_retry() {
    type Call = fn() -> Result<(), Error>;
    let take: Call = || taken("s1", "a").map(drop);
    let group: Call = || together("g1", &["a", "b"]).map(drop);
    let delete: Call = || SNAPSHOTS.delete(&SNAPSHOTS.records.id("s1"));
    let delete_group: Call = || SNAPSHOTS.delete_group(&SNAPSHOTS.groups.id("g1"), &[]);
    let nothing: Call = || Ok(());
    for (before, call) in [
        (nothing, take),
        (nothing, group),
        (take, delete),
        (group, delete_group),
    ] {
        let outcome = |point| {
            fresh();
            before().unwrap();
            testing::fail_after(point, Error::unavailable("power cut"));
            let cut_off = call();
            testing::mend();
            if cut_off.is_err() {
                call().unwrap();
            }
            left_behind()
        };
        let whole = outcome(usize::MAX);
        for point in 0..32 {
            assert_eq!(outcome(point), whole, "ended after {point} host calls");
        }
    }
}

#[test]
fn what_a_call_left_half_way_can_be_deleted_one_by_one() {
    type Call = fn() -> Result<(), Error>;
    let take: Call = || taken("s1", "a").map(drop);
    let group: Call = || together("g1", &["a", "b"]).map(drop);
    for call in [take, group] {
        for point in 0..32 {
            fresh();
            let there = left_behind();
            testing::fail_after(point, Error::unavailable("power cut"));
            let cut_off = call();
            testing::mend();
            if cut_off.is_ok() || is_whole("g1") {
                continue;
            }
            for snapshot in listed(None) {
                SNAPSHOTS.delete(&snapshot.id).unwrap();
            }
            assert_eq!(left_behind(), there, "ended after {point} host calls");
        }
    }
}

#[test]
fn a_half_made_group_whose_source_is_gone_leaves_nothing() {
    for point in 0..32 {
        fresh();
        testing::fail_after(point, Error::unavailable("power cut"));
        let cut_off = together("g1", &["a", "b"]);
        testing::mend();
        if cut_off.is_ok() || is_whole("g1") {
            continue;
        }
        POOL.remove("b").unwrap();
        let refused = together("g1", &["a", "b"]);
        assert_eq!(code(refused), Some(Code::NotFound), "{point}");
        let rest = vec!["a".to_owned(), "tree".to_owned()];
        assert_eq!(
            left_behind(),
            (vec![], rest),
            "ended after {point} host calls"
        );
    }
}

#[test]
fn a_group_is_of_the_time_when_it_was_first_asked_for() {
    let mut was_half_made = 0;
    for point in 0..32 {
        fresh();
        testing::fail_after(point, Error::unavailable("power cut"));
        let cut_off = together("g1", &["a", "b"]);
        testing::mend();
        let half = listed(None);
        let group = together("g1", &["a", "b"]).unwrap();
        if cut_off.is_err() && !half.is_empty() {
            was_half_made += 1;
            assert_eq!(group.created_at, half[0].created_at, "{point}");
            assert!(half.iter().all(|it| it.group_snapshot_id.is_some()));
        }
        let moments = group.snapshots.iter().map(|it| it.created_at);
        assert!(moments.eq([group.created_at; 2]), "{point}");
    }
    assert!(was_half_made > 2);
}

/// The state after a power cut between the copy and the sync of its record.
#[test]
fn a_copy_without_a_record_is_not_taken_for_a_new_one() {
    fresh();
    let alone = taken("s1", "a").unwrap().id;
    let group = together("g1", &["a", "b"]).unwrap();
    let members: Vec<_> = group.snapshots.into_iter().map(|it| it.id).collect();
    for id in [&alone, &group.id].into_iter().chain(&members) {
        state::delete(id).unwrap();
    }
    for volume in ["a", "b"] {
        POOL.resize_image(volume, 2 * GIB).unwrap();
    }
    let bytes = |id: &str| POOL.stat(id).unwrap().unwrap().size_bytes;
    assert_eq!(bytes(&members[0]), GIB);
    taken("s1", "a").unwrap();
    together("g1", &["a", "b"]).unwrap();
    for id in members.iter().chain([&alone]) {
        assert_eq!(bytes(id), 2 * GIB, "the copy is of another time");
    }
}

#[test]
fn a_look_up_that_meets_a_deletion_leaves_no_copy() {
    fresh();
    testing::delay_copies();
    let snapshot = taken("s1", "a").unwrap();
    testing::lose_copies();
    let there = SNAPSHOTS.records.get(&snapshot.id).unwrap();
    SNAPSHOTS.delete(&snapshot.id).unwrap();
    // The look-up read the record before the deletion.
    let missed = SNAPSHOTS.settle(&snapshot.id, there);
    assert_eq!(code(missed), Some(Code::Aborted));
    testing::finish_copies(Ok(()));
    let anew = taken("s1", "b");
    assert!(!anew.unwrap().ready_to_use, "it is not the copy of another");
}

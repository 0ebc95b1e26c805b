//! Snapshots with copies that outlast the call: not ready, ready later, lost, failed.

use super::*;

/// A volume, and a snapshot of it that is still being copied.
fn begun(kind: &str) -> (String, Snapshot) {
    fresh();
    let volume = created("pvc-1", kind).id;
    testing::delay_copies();
    let snapshot = taken("snap-1", &volume).unwrap();
    assert!(!snapshot.ready_to_use);
    (volume, snapshot)
}

fn look_up(id: &str) -> Result<bool, Error> {
    Hostpath::get_snapshot(id.to_owned()).map(|snapshot| snapshot.ready_to_use)
}

fn list() -> Vec<bool> {
    let page = PageRequest {
        max_entries: None,
        starting_token: None,
    };
    let args = ListSnapshotsArgs {
        source_volume: None,
        page,
    };
    let page = Hostpath::list_snapshots(args).unwrap();
    page.entries.iter().map(|it| it.ready_to_use).collect()
}

#[test]
fn a_snapshot_is_ready_when_its_copy_is_whole() {
    for kind in ["image", "directory"] {
        let (volume, snapshot) = begun(kind);
        assert_eq!(taken("snap-1", &volume), Ok(snapshot.clone()));
        assert_eq!((look_up(&snapshot.id), list()), (Ok(false), vec![false]));
        let source = ContentSource::Snapshot(snapshot.id.clone());
        let early = copied("early", kind, source.clone(), GIB);
        assert_eq!(code(early), Some(Code::FailedPrecondition));
        let early = Hostpath::get_allocated(snapshot.id.clone(), 0, 0);
        assert_eq!(code(early), Some(Code::FailedPrecondition));
        testing::finish_copies(Ok(()));
        assert_eq!(list(), [true]);
        assert_eq!(look_up(&snapshot.id), Ok(true));
        let ready = taken("snap-1", &volume).unwrap();
        assert_eq!(
            (ready.ready_to_use, ready.created_at),
            (true, snapshot.created_at)
        );
        assert_eq!(code(copied("late", kind, source, GIB)), Some(Code::Aborted));
        testing::finish_copies(Ok(()));
    }
}

#[test]
fn a_copy_that_was_lost_with_its_host_is_begun_again() {
    let (_, snapshot) = begun("image");
    testing::lose_copies();
    assert_eq!(look_up(&snapshot.id), Ok(false));
    testing::finish_copies(Ok(()));
    assert_eq!(look_up(&snapshot.id), Ok(true));
}

#[test]
fn content_that_is_lost_after_it_was_ready_is_not_copied_anew() {
    let (_, snapshot) = begun("image");
    testing::finish_copies(Ok(()));
    assert_eq!(look_up(&snapshot.id), Ok(true));
    POOL.remove(&snapshot.id).unwrap();
    look_up(&snapshot.id).unwrap();
    assert_eq!(POOL.stat(&snapshot.id), Ok(None));
}

#[test]
fn a_failed_copy_is_reported_once_and_leaves_nothing() {
    let (volume, snapshot) = begun("directory");
    testing::finish_copies(Err(Error::resource_exhausted("the disk is full")));
    let told = look_up(&snapshot.id);
    assert_eq!(code(told), Some(Code::ResourceExhausted));
    assert_eq!(code(look_up(&snapshot.id)), Some(Code::NotFound));
    assert_eq!(left_behind(), (vec![volume.clone()], vec![volume]));
}

#[test]
fn a_host_that_is_away_for_a_moment_loses_no_snapshot() {
    let (_, snapshot) = begun("image");
    testing::finish_copies(Err(Error::unavailable("the mounter starts")));
    assert_eq!(code(look_up(&snapshot.id)), Some(Code::Unavailable));
    assert_eq!(look_up(&snapshot.id), Ok(false));
}

#[test]
fn a_snapshot_under_way_is_deleted_when_its_copy_has_ended() {
    let (volume, snapshot) = begun("image");
    let deleted = || code(Hostpath::delete_snapshot(snapshot.id.clone()));
    assert_eq!(deleted(), Some(Code::Aborted));
    let source = Hostpath::delete_volume(volume.clone());
    assert_eq!(code(source), Some(Code::FailedPrecondition));
    testing::finish_copies(Ok(()));
    assert_eq!(deleted(), None);
    assert_eq!(left_behind(), (vec![volume.clone()], vec![volume]));
}

#[test]
fn a_clone_under_way_is_joined_by_its_retry() {
    fresh();
    let source = ContentSource::Volume(created("pvc-1", "image").id);
    testing::delay_copies();
    let clone = || copied("pvc-2", "image", source.clone(), 2 * GIB);
    for _ in 0..2 {
        assert_eq!(code(clone()), Some(Code::Aborted));
    }
    testing::finish_copies(Ok(()));
    let volume = clone().unwrap();
    assert_eq!(size_in_pool(&volume.id), Some(2 * GIB));
    let again = ContentSource::Volume(volume.id);
    let clone_of_clone = || copied("pvc-3", "image", again.clone(), GIB);
    assert_eq!(code(clone_of_clone()), Some(Code::Aborted));
    testing::finish_copies(Ok(()));
    let volume = clone_of_clone().unwrap();
    assert_eq!(size_in_pool(&volume.id), Some(2 * GIB));
    assert_eq!(volume.capacity_bytes, 2 * GIB);
}

//! Every call is ended after each of its effects, and repeated: nothing is made twice, and nothing is left behind.

use super::*;
use std::fmt::Debug;

/// More requests than any call sends.
const MOST_REQUESTS: usize = 40;

/// Runs `call` after `prepare`, cut after each request, and again; `result` says what must come of it.
fn interrupt<P, T: Debug + PartialEq>(
    prepare: impl Fn() -> P,
    call: impl Fn(&P) -> Result<T, Error>,
    result: &[&str],
) {
    let mut cuts = 0;
    for answers in 0..MOST_REQUESTS {
        let ceph = fresh();
        let prepared = prepare();
        testing::lose_answer_after(answers);
        let first = call(&prepared);
        testing::mend();
        cuts += usize::from(first.is_err());
        if let Err(error) = &first {
            assert_eq!(error.code, Code::Unavailable, "{answers}: {error:?}");
        }
        let second = call(&prepared);
        assert!(second.is_ok(), "{answers}: {second:?}");
        assert!(first.is_err() || first == second, "{answers}");
        assert_eq!(ceph.all(), result, "{answers}");
        // A client for each subvolume, and none without.
        let subvolumes = result.iter().filter(|it| !it.contains('@')).count();
        assert_eq!(ceph.clients().len(), subvolumes, "{answers}");
    }
    assert!(cuts > 0 && cuts < MOST_REQUESTS, "{cuts}");
}

#[test]
fn a_creation_is_repeated_without_a_second_subvolume() {
    let create = |_: &()| CephFs::create_volume(request("pvc", &[], GIB));
    interrupt(|| (), create, &["csi/csi-vol-pvc"]);
}

#[test]
fn a_clone_is_repeated_without_a_second_copy() {
    let source = || ContentSource::Volume(created("pvc").id);
    let create = |source: &ContentSource| {
        let mut args = copy_of(source.clone(), "clone");
        args.capacity = range(2 * GIB);
        CephFs::create_volume(args)
    };
    interrupt(source, create, &["csi/csi-vol-clone", "csi/csi-vol-pvc"]);
}

#[test]
fn a_restoration_is_repeated_without_a_second_copy() {
    let source = || ContentSource::Snapshot(snapshot_of(&created("pvc").id, "s").unwrap().id);
    let create = |source: &ContentSource| CephFs::create_volume(copy_of(source.clone(), "copy"));
    let result = [
        "csi/csi-vol-copy",
        "csi/csi-vol-pvc",
        "csi/csi-vol-pvc@csi-snap-s",
    ];
    interrupt(source, create, &result);
}

#[test]
fn a_snapshot_is_repeated_without_a_second_one() {
    let result = ["csi/csi-vol-pvc", "csi/csi-vol-pvc@csi-snap-s"];
    interrupt(|| created("pvc").id, |id| snapshot_of(id, "s"), &result);
}

#[test]
fn an_expansion_is_repeated() {
    interrupt(
        || created("pvc").id,
        |id| expand(id, 2 * GIB),
        &["csi/csi-vol-pvc"],
    );
}

#[test]
fn deletions_are_repeated() {
    let delete = |id: &String| CephFs::delete_volume(id.clone());
    interrupt(|| created("pvc").id, delete, &[]);
    let snapshot = || snapshot_of(&created("pvc").id, "s").unwrap().id;
    let delete = |id: &String| CephFs::delete_snapshot(id.clone());
    interrupt(snapshot, delete, &["csi/csi-vol-pvc"]);
}

#[test]
fn a_clone_that_nobody_asks_for_any_more_leaves_nothing() {
    for answers in 0..MOST_REQUESTS {
        let ceph = fresh();
        let source = created("pvc").id;
        testing::lose_answer_after(answers);
        let clone = CephFs::create_volume(copy_of(ContentSource::Volume(source), "clone"));
        testing::mend();
        let delete = || CephFs::delete_volume("cephfs/csi/csi-vol-clone".to_owned());
        while code(delete()) == Some(Code::Aborted) {}
        assert_eq!(delete(), Ok(()), "{answers}: {clone:?}");
        assert_eq!(ceph.all(), ["csi/csi-vol-pvc"], "{answers}");
        assert_eq!(ceph.clients().len(), 1, "{answers}");
        assert_eq!(testing::state_keys().len(), 1, "{answers}");
    }
}

#[test]
fn a_half_deleted_volume_is_created_anew() {
    let mut half_deleted = 0;
    for answers in 0..MOST_REQUESTS {
        let ceph = fresh();
        let id = created("pvc").id;
        testing::lose_answer_after(answers);
        let deleted = CephFs::delete_volume(id.clone());
        testing::mend();
        half_deleted += usize::from(deleted.is_err() && ceph.all().is_empty());
        assert_eq!(created("pvc").id, id, "{answers}");
        assert_eq!(ceph.all(), ["csi/csi-vol-pvc"], "{answers}");
        assert_eq!(ceph.clients().len(), 1, "{answers}");
    }
    assert!(half_deleted > 0);
}

#[test]
fn a_half_deleted_snapshot_is_not_answered_as_a_new_one() {
    let ceph = fresh();
    let volume = created("pvc").id;
    let snapshot = snapshot_of(&volume, "s").unwrap().id;
    testing::lose_answer_after(0);
    let deleted = CephFs::delete_snapshot(snapshot.clone());
    testing::mend();
    assert_eq!(code(deleted), Some(Code::Unavailable));
    assert_eq!(ceph.all(), ["csi/csi-vol-pvc"]);
    assert_eq!(code(snapshot_of(&volume, "s")), Some(Code::Aborted));
    assert_eq!(CephFs::delete_snapshot(snapshot), Ok(()));
    assert!(snapshot_of(&volume, "s").is_ok());
    assert_eq!(
        ceph.all(),
        ["csi/csi-vol-pvc", "csi/csi-vol-pvc@csi-snap-s"]
    );
}

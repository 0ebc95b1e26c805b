//! Snapshots, and volumes made of them.

use super::*;

#[test]
fn a_snapshot_has_the_time_of_ceph_and_the_size_of_its_volume() {
    let ceph = fresh();
    let volume = created("pvc").id;
    let snapshot = snapshot_of(&volume, "s").unwrap();
    assert_eq!(snapshot.id, "cephfs/csi/csi-vol-pvc/csi-snap-s");
    assert_eq!(
        (&snapshot.source_volume, snapshot.size_bytes),
        (&volume, GIB)
    );
    assert_eq!(snapshot.created_at, 1_795_733_275_826_509_000);
    assert_eq!(snapshot_of(&volume, "s").unwrap(), snapshot);
    assert_eq!(CephFs::get_snapshot(snapshot.id.clone()).unwrap(), snapshot);
    assert_eq!(CephFs::delete_snapshot(snapshot.id.clone()), Ok(()));
    assert_eq!(CephFs::delete_snapshot(snapshot.id.clone()), Ok(()));
    assert_eq!(
        code(CephFs::get_snapshot(snapshot.id)),
        Some(Code::NotFound)
    );
    assert_eq!(ceph.all(), ["csi/csi-vol-pvc"]);
}

#[test]
fn a_name_is_that_of_one_volume_only() {
    let _ceph = fresh();
    let (first, second) = (created("first").id, created("second").id);
    snapshot_of(&first, "s").unwrap();
    let taken = snapshot_of(&second, "s");
    assert_eq!(code(taken), Some(Code::AlreadyExists));
    snapshot_of(&second, "t").unwrap();
    let list = |source_volume| {
        let page = first_page();
        let list = CephFs::list_snapshots(ListSnapshotsArgs {
            source_volume,
            page,
        });
        list.unwrap().entries.len()
    };
    assert_eq!(list(None), 2);
    assert_eq!(list(Some(first)), 1);
    assert_eq!(list(Some("cephfs/csi/x".to_owned())), 0);
}

#[test]
fn a_snapshot_outlives_its_volume() {
    let ceph = fresh();
    let volume = created("pvc").id;
    let snapshot = snapshot_of(&volume, "s").unwrap().id;
    assert_eq!(CephFs::delete_volume(volume.clone()), Ok(()));
    assert_eq!(
        code(CephFs::get_volume(volume.clone())),
        Some(Code::NotFound)
    );
    assert_eq!(ceph.all(), ["csi/csi-vol-pvc@csi-snap-s"]);
    let source = ContentSource::Snapshot(snapshot.clone());
    let restored = CephFs::create_volume(copy_of(source.clone(), "restored")).unwrap();
    assert_eq!(restored.content_source, Some(source));
    assert_eq!(CephFs::delete_snapshot(snapshot), Ok(()));
    assert_eq!(ceph.all(), ["csi/csi-vol-restored"]);
    // The name is free for a volume of another kind.
    assert_eq!(created("pvc").id, volume);
}

#[test]
fn a_snapshot_that_is_being_copied_is_kept() {
    let ceph = fresh();
    let snapshot = snapshot_of(&created("pvc").id, "s").unwrap().id;
    ceph.take_looks(1000);
    let source = ContentSource::Snapshot(snapshot.clone());
    let restored = CephFs::create_volume(copy_of(source, "restored"));
    assert_eq!(code(restored), Some(Code::Aborted));
    let deleted = CephFs::delete_snapshot(snapshot);
    assert_eq!(code(deleted), Some(Code::Aborted));
}

#[test]
fn a_restored_volume_is_as_large_as_its_source() {
    let _ceph = fresh();
    let snapshot = snapshot_of(&created("pvc").id, "s").unwrap().id;
    let mut smaller = copy_of(ContentSource::Snapshot(snapshot), "restored");
    smaller.capacity.required_bytes = None;
    smaller.capacity.limit_bytes = Some(GIB - 4 * MIB);
    let answer = CephFs::create_volume(smaller.clone());
    assert_eq!(code(answer), Some(Code::OutOfRange));
    smaller.capacity.limit_bytes = None;
    let restored = CephFs::create_volume(smaller).unwrap();
    assert_eq!(restored.capacity_bytes, GIB);
}

#[test]
fn an_absent_source_is_not_found() {
    let _ceph = fresh();
    created("pvc");
    for id in ["cephfs/csi/csi-vol-pvc/csi-snap-s", "cephfs/csi/x", "x"] {
        let source = ContentSource::Snapshot(id.to_owned());
        let restored = CephFs::create_volume(copy_of(source, "restored"));
        assert_eq!(code(restored), Some(Code::NotFound), "{id}");
    }
    let absent = snapshot_of("cephfs/csi/x", "s");
    assert_eq!(code(absent), Some(Code::NotFound));
}

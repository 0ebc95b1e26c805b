//! Snapshots, and volumes made of them and of volumes.

use super::*;

fn snapshot(volume: &str, name: &str) -> Result<Snapshot, Error> {
    Rbd::create_snapshot(CreateSnapshotArgs {
        source_volume: volume.to_owned(),
        name: name.to_owned(),
        parameters: vec![("clusterID".to_owned(), "tests".to_owned())],
        accessibility: None,
    })
}

fn copy(name: &str, mib: u64, source: ContentSource) -> Result<Volume, Error> {
    Rbd::create_volume(CreateVolumeArgs {
        content_source: Some(source),
        ..args(name, mib)
    })
}

#[test]
fn a_copy_depends_on_nothing() {
    let ceph = start();
    let volume = create("pvc", 64).unwrap();
    let taken = snapshot(&volume.id, "s").unwrap();
    assert_eq!(snapshot(&volume.id, "s"), Ok(taken.clone()));
    assert_eq!(taken.id, "kubernetes/csi-vol-pvc@csi-snap-s");
    assert_eq!(taken.size_bytes, 64 * MIB);
    let restored = copy("restored", 96, ContentSource::Snapshot(taken.id.clone()));
    let restored = restored.unwrap();
    assert_eq!(restored.capacity_bytes, 96 * MIB);
    assert_eq!(ceph.size(&restored.id), 96 * MIB);
    let clone = copy("clone", 64, ContentSource::Volume(volume.id.clone())).unwrap();
    Rbd::delete_snapshot(taken.id.clone()).unwrap();
    Rbd::delete_snapshot(taken.id).unwrap();
    Rbd::delete_volume(volume.id).unwrap();
    assert_eq!(ceph.all(), [clone.id.clone(), restored.id.clone()]);
    for id in [clone.id, restored.id] {
        Rbd::delete_volume(id).unwrap();
    }
    assert_eq!(ceph.all(), [""; 0]);
}

#[test]
fn a_volume_with_a_snapshot_is_not_deleted() {
    let ceph = start();
    let volume = create("pvc", 64).unwrap();
    let taken = snapshot(&volume.id, "s").unwrap();
    let refused = Rbd::delete_volume(volume.id.clone());
    assert_eq!(code(refused), Some(Code::FailedPrecondition));
    assert_eq!(ceph.all().len(), 2);
    Rbd::delete_snapshot(taken.id).unwrap();
    Rbd::delete_volume(volume.id).unwrap();
    assert_eq!(ceph.all(), [""; 0]);
}

#[test]
fn a_name_is_that_of_one_snapshot_and_one_source() {
    let _ceph = start();
    let (one, other) = (create("one", 64).unwrap(), create("other", 64).unwrap());
    snapshot(&one.id, "s").unwrap();
    assert_eq!(code(snapshot(&other.id, "s")), Some(Code::AlreadyExists));
    copy("copy", 64, ContentSource::Volume(one.id)).unwrap();
    let again = copy("copy", 64, ContentSource::Volume(other.id));
    assert_eq!(code(again), Some(Code::AlreadyExists));
    let missing = "kubernetes/csi-vol-none@csi-snap-none".to_owned();
    let missing = copy("none", 64, ContentSource::Snapshot(missing));
    assert_eq!(code(missing), Some(Code::NotFound));
}

//! Volumes, their classes, and their copies.

use super::*;

const ID: &str = "cephfs/csi/csi-vol-pvc";
const USER: &str = "csi-f08cd849d709319d-csi-vol-pvc";

fn refused(more: &[(&str, &str)]) -> Error {
    CephFs::create_volume(request("pvc", more, GIB)).unwrap_err()
}

#[test]
fn a_volume_is_a_subvolume_with_a_quota() {
    let ceph = fresh();
    let more = [
        ("pool", "fast"),
        ("kernelMountOptions", "ms_mode=secure,rasize=8388608"),
        ("mounter", "kernel"),
        ("keyPerVolume", "false"),
        ("encrypted", "false"),
        ("csi.storage.k8s.io/pv/name", "pvc"),
    ];
    let volume = CephFs::create_volume(request("pvc", &more, GIB + 1)).unwrap();
    assert_eq!(
        (volume.id.as_str(), volume.capacity_bytes),
        (ID, GIB + 4 * MIB)
    );
    let context = pairs(&[
        ("fsName", "cephfs"),
        ("subvolumeName", "csi-vol-pvc"),
        ("subvolumePath", "/volumes/csi/csi-vol-pvc/1"),
        ("kernelMountOptions", "ms_mode=secure,rasize=8388608"),
    ]);
    assert_eq!(volume.context, context);
    assert_eq!(ceph.quota("csi/csi-vol-pvc"), GIB + 4 * MIB);
    assert_eq!(ceph.pool("csi/csi-vol-pvc").as_deref(), Some("fast"));
    let again = CephFs::create_volume(request("pvc", &more, GIB + 1)).unwrap();
    assert_eq!(again, volume);
    assert_eq!(CephFs::get_volume(ID.to_owned()).unwrap().volume, volume);
    let listed = CephFs::list_volumes(first_page()).unwrap().entries;
    assert_eq!(
        listed.into_iter().map(|it| it.volume).collect::<Vec<_>>(),
        [volume]
    );
    assert_eq!(CephFs::delete_volume(ID.to_owned()), Ok(()));
    assert_eq!(CephFs::delete_volume(ID.to_owned()), Ok(()));
    assert_eq!((ceph.all(), testing::state_keys()), (vec![], vec![]));
}

#[test]
fn a_volume_has_a_client_of_its_own_with_a_sealed_key() {
    let ceph = fresh();
    let user = USER;
    // Left of an earlier volume of this name.
    ceph.add_client(&format!("client.{user}"));
    let volume = created("pvc");
    assert_eq!(volume.context.value("user"), Some(user));
    let sealed = volume.context.require("sealedKey").unwrap();
    let key = (ID.to_owned(), format!("key of client.{user}"));
    assert_eq!(testing::unsealed(sealed), Some(key));
    let rights = "mon allow r fsname=cephfs, mds allow rw fsname=cephfs path=/volumes/csi/csi-vol-pvc/1, \
                  osd allow rw pool=data namespace=fsvolumens_csi-vol-pvc";
    assert_eq!(ceph.clients(), [format!("client.{user}: {rights}")]);
    assert_eq!(created("pvc"), volume);
    assert_eq!(CephFs::get_volume(ID.to_owned()).unwrap().volume, volume);
    assert_eq!(CephFs::delete_volume(ID.to_owned()), Ok(()));
    assert_eq!(ceph.clients(), [""; 0]);
}

#[test]
fn a_class_without_keys_of_volumes_makes_no_client() {
    let ceph = fresh();
    let request = || request("pvc", &[("keyPerVolume", "false")], GIB);
    let volume = CephFs::create_volume(request()).unwrap();
    assert_eq!(volume.context.value("sealedKey"), None);
    assert_eq!(CephFs::delete_volume(volume.id), Ok(()));
    assert_eq!(ceph.clients(), [""; 0]);
    // Without the grant there are no such keys, and the subvolume is found again.
    testing::reset();
    testing::set_setting("monitors", MONITORS);
    let _ceph = Ceph::start();
    let denied = CephFs::create_volume(self::request("pvc", &[], GIB));
    assert_eq!(code(denied), Some(Code::PermissionDenied));
}

#[test]
fn a_class_chooses_prefix_and_granted_group() {
    let ceph = fresh();
    testing::set_setting("subvolumeGroups", "csi, other");
    let more = [("subvolumeGroup", "other"), ("volumeNamePrefix", "blue-")];
    let volume = CephFs::create_volume(request("pvc", &more, GIB)).unwrap();
    assert_eq!(volume.id, "cephfs/other/blue-pvc");
    assert_eq!(ceph.all(), ["other/blue-pvc"]);
    testing::set_setting("subvolumeGroups", "csi");
    let not_ours = CephFs::delete_volume(volume.id);
    assert_eq!(code(not_ours), Some(Code::FailedPrecondition));
    assert_eq!(ceph.all(), ["other/blue-pvc"]);
}

/// ceph-csi's example (examples/cephfs/storageclass.yaml), but for what cannot be served.
#[test]
fn the_example_class_of_ceph_csi_makes_a_volume() {
    let ceph = fresh();
    let mut wanted = request("pvc", &[], GIB);
    wanted.parameters = pairs(&[
        ("clusterID", "blue"),
        ("fsName", "cephfs"),
        ("pool", "fast"),
        ("fuseMountOptions", "debug"),
        ("kernelMountOptions", "readdir_max_bytes=1048576,norbytes"),
        (
            "csi.storage.k8s.io/provisioner-secret-name",
            "csi-cephfs-secret",
        ),
        ("csi.storage.k8s.io/provisioner-secret-namespace", "default"),
        (
            "csi.storage.k8s.io/controller-expand-secret-name",
            "csi-cephfs-secret",
        ),
        (
            "csi.storage.k8s.io/controller-expand-secret-namespace",
            "default",
        ),
        (
            "csi.storage.k8s.io/node-stage-secret-name",
            "csi-cephfs-secret",
        ),
        ("csi.storage.k8s.io/node-stage-secret-namespace", "default"),
        ("mounter", "kernel"),
        ("volumeNamePrefix", "foo-bar-"),
        ("backingSnapshot", "false"),
        ("encrypted", "false"),
    ]);
    let volume = CephFs::create_volume(wanted).unwrap();
    assert_eq!(volume.id, "cephfs/csi/foo-bar-pvc");
    assert_eq!(ceph.pool("csi/foo-bar-pvc").as_deref(), Some("fast"));
    let options = ("kernelMountOptions", "readdir_max_bytes=1048576,norbytes");
    assert!(volume.context.contains(&pairs(&[options])[0]));
    for key in ["encryptionKMSID", "encryptionType"] {
        let refused = refused(&[(key, "vault")]);
        assert_eq!(refused.code, Code::InvalidArgument);
        let named = format!("`{key}`");
        assert!(refused.message.contains(&named), "{}", refused.message);
    }
}

#[test]
fn a_class_that_cannot_be_served_is_rejected() {
    let ceph = fresh();
    for more in [
        [("mounter", "fuse")],
        [("encrypted", "true")],
        [("backingSnapshot", "true")],
        [("subvolumeGroup", "other")],
        [("volumeNamePrefix", "../")],
        [("pool", "none")],
        [("unknown", "x")],
    ] {
        assert_eq!(refused(&more).code, Code::InvalidArgument, "{more:?}");
    }
    let mut other = request("pvc", &[], GIB);
    other.parameters = pairs(&[("clusterID", "green"), ("fsName", "cephfs")]);
    assert_eq!(
        code(CephFs::create_volume(other)),
        Some(Code::InvalidArgument)
    );
    let mut other = request("pvc", &[], GIB);
    other.parameters = pairs(&[("fsName", "other")]);
    assert_eq!(
        code(CephFs::create_volume(other)),
        Some(Code::FailedPrecondition)
    );
    let mut block = request("pvc", &[], GIB);
    block.capabilities[0].access_type = AccessType::Block;
    assert_eq!(
        code(CephFs::create_volume(block)),
        Some(Code::InvalidArgument)
    );
    assert_eq!(ceph.all(), [""; 0]);
}

#[test]
fn a_name_that_ceph_would_reject_is_hashed() {
    let ceph = fresh();
    for name in ["a/b", "..", "x-1", &"a".repeat(46)] {
        let volume = created(name);
        assert!(volume.id.starts_with("cephfs/csi/csi-vol-x-"), "{name}");
        let snapshot = snapshot_of(&volume.id, &"s".repeat(128)).unwrap();
        assert!(snapshot.id.len() <= 128, "{name}");
        assert_eq!(CephFs::delete_snapshot(snapshot.id), Ok(()));
    }
    assert_eq!(ceph.all().len(), 4);
}

#[test]
fn a_name_with_another_size_is_rejected() {
    let _ceph = fresh();
    created("pvc");
    let larger = CephFs::create_volume(request("pvc", &[], 2 * GIB));
    assert_eq!(code(larger), Some(Code::AlreadyExists));
}

#[test]
fn an_id_that_is_not_ours_is_no_volume() {
    let ceph = fresh();
    created("pvc");
    for id in [
        "",
        "csi-vol-pvc",
        "cephfs/csi/../other",
        "cephfs//x",
        "a/b/c/d",
    ] {
        assert_eq!(CephFs::delete_volume(id.to_owned()), Ok(()), "{id}");
        assert_eq!(code(expand(id, 2 * GIB)), Some(Code::NotFound), "{id}");
        assert_eq!(code(snapshot_of(id, "s")), Some(Code::NotFound), "{id}");
    }
    assert_eq!(ceph.all(), ["csi/csi-vol-pvc"]);
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    let ceph = fresh();
    let id = created("pvc").id;
    assert_eq!(expand(&id, 2 * GIB).unwrap(), Expanded::to(2 * GIB));
    assert_eq!(expand(&id, GIB).unwrap(), Expanded::to(2 * GIB));
    assert_eq!(ceph.quota("csi/csi-vol-pvc"), 2 * GIB);
    let listed = CephFs::list_volumes(first_page()).unwrap().entries;
    assert_eq!(listed[0].volume.capacity_bytes, 2 * GIB);
}

#[test]
fn capacity_is_that_of_the_pool() {
    let _ceph = fresh();
    for (more, bytes) in [
        (&[][..], 5 * GIB),
        (&[("pool", "fast")], 2 * GIB),
        (&[("pool", "metadata")], 0),
        (&[("mounter", "fuse")], 0),
    ] {
        let available = CephFs::get_capacity(CapacityArgs {
            capabilities: Vec::new(),
            parameters: class(more),
            accessible_topology: None,
        });
        assert_eq!(available.unwrap().available_bytes, bytes, "{more:?}");
    }
}

#[test]
fn capabilities_are_confirmed_for_mounts_only() {
    let _ceph = fresh();
    let id = created("pvc").id;
    let validate = |id: &str, one: VolumeCapability| {
        CephFs::validate_volume_capabilities(ValidateArgs {
            id: id.to_owned(),
            context: Vec::new(),
            capabilities: vec![one],
            parameters: Vec::new(),
            mutable_parameters: Vec::new(),
        })
    };
    let mount = capability(AccessMode::MultiNodeMultiWriter);
    let block = VolumeCapability {
        access_type: AccessType::Block,
        ..mount.clone()
    };
    assert_eq!(validate(&id, mount.clone()), Ok(Validation::Confirmed));
    assert!(matches!(
        validate(&id, block),
        Ok(Validation::Unsupported(_))
    ));
    assert_eq!(code(validate("cephfs/csi/x", mount)), Some(Code::NotFound));
}

#[test]
fn a_clone_grows_and_leaves_no_snapshot() {
    let ceph = fresh();
    let source = ContentSource::Volume(created("pvc").id);
    let mut larger = copy_of(source.clone(), "clone");
    larger.capacity = range(2 * GIB);
    let clone = CephFs::create_volume(larger).unwrap();
    assert_eq!(clone.content_source, Some(source));
    assert_eq!(clone.capacity_bytes, 2 * GIB);
    assert_eq!(ceph.quota("csi/csi-vol-clone"), 2 * GIB);
    assert_eq!(ceph.all(), ["csi/csi-vol-clone", "csi/csi-vol-pvc"]);
}

#[test]
fn a_long_copy_is_aborted_and_found_again() {
    let ceph = fresh();
    let source = ContentSource::Volume(created("pvc").id);
    ceph.take_looks(1000);
    let create = || CephFs::create_volume(copy_of(source.clone(), "clone"));
    assert_eq!(code(create()), Some(Code::Aborted));
    let other = CephFs::create_volume(request("clone", &[], GIB));
    assert_eq!(code(other), Some(Code::AlreadyExists));
    // It is not listed, and cannot be used or deleted yet.
    assert_eq!(CephFs::list_volumes(first_page()).unwrap().entries.len(), 1);
    let id = "cephfs/csi/csi-vol-clone";
    assert_eq!(code(expand(id, 2 * GIB)), Some(Code::Aborted));
    assert_eq!(
        code(CephFs::delete_volume(id.to_owned())),
        Some(Code::Aborted)
    );
    testing::set_remaining(std::time::Duration::from_secs(6000));
    assert_eq!(create().map(|it| it.id).as_deref(), Ok(id));
    assert_eq!(ceph.all(), ["csi/csi-vol-clone", "csi/csi-vol-pvc"]);
}

#[test]
fn a_failed_copy_names_what_to_remove() {
    let ceph = fresh();
    let source = ContentSource::Volume(created("pvc").id);
    ceph.fail_clones();
    let error = CephFs::create_volume(copy_of(source, "clone")).unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    let command = "`ceph fs subvolume rm cephfs csi-vol-clone csi --force`";
    assert!(error.message.contains(command), "{error:?}");
    ceph.remove("csi/csi-vol-clone");
    assert_eq!(ceph.all(), ["csi/csi-vol-pvc"]);
}

#[test]
fn a_source_in_another_place_or_absent_is_rejected() {
    let _ceph = fresh();
    let id = created("pvc").id;
    let absent = ContentSource::Volume("cephfs/csi/x".to_owned());
    let answer = CephFs::create_volume(copy_of(absent, "clone"));
    assert_eq!(code(answer), Some(Code::NotFound));
    let mut other = copy_of(ContentSource::Volume(id), "clone");
    other.parameters = pairs(&[("fsName", "other")]);
    assert_eq!(
        code(CephFs::create_volume(other)),
        Some(Code::InvalidArgument)
    );
}

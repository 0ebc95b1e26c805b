//! Volumes: created once, grown, listed, deleted; and what is refused.

use super::*;
use crate::volumes::VOLUMES;

fn owned(pairs: &[(&str, &str)]) -> Attributes {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn a_volume_is_created_once_and_deleted() {
    let ceph = start();
    let volume = create("pvc", 64).unwrap();
    assert_eq!(volume.id, "kubernetes/csi-vol-pvc");
    assert_eq!(create("pvc", 64), Ok(volume.clone()));
    assert_eq!(code(create("pvc", 65)), Some(Code::AlreadyExists));
    let found = Rbd::get_volume(volume.id.clone()).unwrap().volume;
    assert_eq!(found, volume);
    Rbd::delete_volume(volume.id.clone()).unwrap();
    Rbd::delete_volume(volume.id).unwrap();
    assert_eq!(ceph.all(), [""; 0]);
}

#[test]
fn an_image_without_a_record_is_never_resized() {
    let ceph = start();
    let volume = create("pvc", 64).unwrap();
    VOLUMES.delete(&VOLUMES.id(&volume.id)).unwrap();
    assert_eq!(code(create("pvc", 96)), Some(Code::AlreadyExists));
    assert_eq!(ceph.size(&volume.id), 64 * MIB);
    assert_eq!(create("pvc", 64), Ok(volume));
}

#[test]
fn a_class_of_ceph_csi_places_an_image() {
    let ceph = start();
    let mut wanted = args("pvc", 64);
    wanted.parameters = owned(&[
        ("clusterID", "tests"),
        ("pool", "shared"),
        ("radosNamespace", "tenant"),
        ("dataPool", "erasure"),
        ("imageFeatures", "layering,exclusive-lock"),
        ("volumeNamePrefix", "team-"),
        ("mounter", "rbd"),
        ("encrypted", "false"),
    ]);
    let volume = Rbd::create_volume(wanted).unwrap();
    assert_eq!(volume.id, "shared/tenant/team-pvc");
    let (pool, features) = ceph.options(&volume.id);
    assert_eq!(pool.as_deref(), Some("erasure"));
    assert_eq!(features, ["layering", "exclusive-lock"]);
    Rbd::delete_volume(volume.id).unwrap();
}

/// The keys of ceph-csi's example (examples/rbd/storageclass.yaml) that have an effect here or need none.
#[test]
fn the_example_class_of_ceph_csi_makes_a_volume() {
    let ceph = start();
    let mut wanted = args("pvc", 64);
    wanted.parameters = owned(&[
        ("clusterID", "tests"),
        ("dataPool", "erasure"),
        ("pool", "kubernetes"),
        (
            "imageFeatures",
            "layering,exclusive-lock,object-map,fast-diff",
        ),
        ("tryOtherMounters", "false"),
        ("mapOptions", "krbd:exclusive"),
        ("unmapOptions", "krbd:force"),
        (
            "csi.storage.k8s.io/provisioner-secret-name",
            "csi-rbd-secret",
        ),
        ("csi.storage.k8s.io/provisioner-secret-namespace", "default"),
        (
            "csi.storage.k8s.io/controller-expand-secret-name",
            "csi-rbd-secret",
        ),
        (
            "csi.storage.k8s.io/controller-expand-secret-namespace",
            "default",
        ),
        (
            "csi.storage.k8s.io/controller-publish-secret-name",
            "csi-rbd-secret",
        ),
        (
            "csi.storage.k8s.io/controller-publish-secret-namespace",
            "default",
        ),
        (
            "csi.storage.k8s.io/node-stage-secret-name",
            "csi-rbd-secret",
        ),
        ("csi.storage.k8s.io/node-stage-secret-namespace", "default"),
        ("csi.storage.k8s.io/fstype", "ext4"),
        ("mounter", "rbd"),
        ("cephLogDir", "/var/log/ceph"),
        ("cephLogStrategy", "remove"),
        ("volumeNamePrefix", "foo-bar-"),
        ("encrypted", "false"),
    ]);
    let volume = Rbd::create_volume(wanted).unwrap();
    assert_eq!(volume.id, "kubernetes/foo-bar-pvc");
    let (pool, features) = ceph.options(&volume.id);
    assert_eq!(pool.as_deref(), Some("erasure"));
    assert_eq!(features.len(), 4);
}

/// The other keys of the example: an image, a file system or a place that is not made here.
#[test]
fn a_key_that_would_change_a_volume_is_named_and_refused() {
    let ceph = start();
    for (key, value) in [
        ("stripeUnit", "4096"),
        ("stripeCount", "8"),
        ("objectSize", "4194304"),
        ("encryptionType", "block"),
        ("encryptionKMSID", "vault"),
        ("topologyConstrainedPools", "[]"),
        ("mkfsOptions", "-m0 -Ediscard -i1024"),
        ("mapOptions", "krbd:lock_on_read"),
        ("mounter", "rbd-nbd"),
        ("encrypted", "true"),
    ] {
        let mut wanted = args("pvc", 64);
        wanted.parameters.extend(owned(&[(key, value)]));
        let refused = Rbd::create_volume(wanted).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "{key}");
        let named = format!("`{key}`");
        assert!(refused.message.contains(&named), "{}", refused.message);
    }
    assert_eq!(ceph.all(), [""; 0]);
}

#[test]
fn a_class_that_cannot_be_is_refused() {
    let ceph = start();
    for (key, value) in [
        ("clusterID", "other"),
        ("pool", "other"),
        ("radosNamespace", "tenant"),
        ("mounter", "rbd-nbd"),
        ("encrypted", "true"),
        ("mapOptions", "lock_on_read"),
        ("imageFeatures", "layering,journaling"),
        ("volumeNamePrefix", "a/b"),
        ("unknown", "a"),
    ] {
        let mut wanted = args("pvc", 64);
        wanted.parameters.retain(|(known, _)| known != key);
        wanted.parameters.push((key.to_owned(), value.to_owned()));
        let refused = code(Rbd::create_volume(wanted));
        assert_eq!(refused, Some(Code::InvalidArgument), "{key}");
    }
    assert_eq!(ceph.all(), [""; 0]);
}

#[test]
fn a_file_system_is_on_one_node_at_a_time() {
    let _ceph = start();
    let many = AccessMode::MultiNodeMultiWriter;
    let mut wanted = args("pvc", 64);
    wanted.capabilities = vec![capability(mounted().access_type, many)];
    assert_eq!(
        code(Rbd::create_volume(wanted)),
        Some(Code::InvalidArgument)
    );
    let mut raw = args("raw", 64);
    raw.capabilities = vec![capability(
        AccessType::Block,
        AccessMode::MultiNodeMultiWriter,
    )];
    Rbd::create_volume(raw).unwrap();
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    let ceph = start();
    let volume = create("pvc", 64).unwrap();
    let grow = |mib: u64| {
        Rbd::expand_volume(ExpandArgs {
            id: volume.id.clone(),
            capacity: CapacityRange {
                required_bytes: Some(mib * MIB),
                limit_bytes: None,
            },
            capability: None,
        })
    };
    assert!(grow(96).unwrap().node_expansion_required);
    assert_eq!(grow(32).unwrap().capacity_bytes, 96 * MIB);
    assert_eq!(ceph.size(&volume.id), 96 * MIB);
}

#[test]
fn an_image_in_use_or_of_others_is_not_deleted() {
    let ceph = start();
    let volume = create("pvc", 64).unwrap();
    ceph.map(&volume.id);
    let refused = Rbd::delete_volume(volume.id);
    assert_eq!(code(refused), Some(Code::FailedPrecondition));
    let elsewhere = Rbd::delete_volume("other/csi-vol-a".to_owned());
    assert_eq!(code(elsewhere), Some(Code::FailedPrecondition));
    for id in ["", "a", "kubernetes/../a", "kubernetes/a b", "a/b/c/d"] {
        assert_eq!(Rbd::delete_volume(id.to_owned()), Ok(()), "{id}");
    }
    assert_eq!(ceph.all().len(), 1);
}

#[test]
fn volumes_are_listed_with_what_is_left() {
    let _ceph = start();
    for name in ["a", "b"] {
        create(name, 64).unwrap();
    }
    let page = PageRequest {
        max_entries: None,
        starting_token: None,
    };
    assert_eq!(Rbd::list_volumes(page).unwrap().entries.len(), 2);
    let args = CapacityArgs {
        capabilities: vec![mounted()],
        parameters: vec![("pool".to_owned(), "kubernetes".to_owned())],
        accessible_topology: None,
    };
    assert_eq!(Rbd::get_capacity(args).unwrap().available_bytes, 5 << 30);
}

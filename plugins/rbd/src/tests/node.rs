//! What a node maps, in which way, and as which user.

use super::*;
use wasmount_guest::secrets::Scope;
use wasmount_guest::testing::{Cephx, Source};

const BACKEND: Scope = Scope::Backend;

fn staged(capability: VolumeCapability, volume: &Volume) -> Result<testing::Rbd, Error> {
    let args = NodeStageArgs {
        id: volume.id.clone(),
        capability,
        publish_context: Vec::new(),
        volume_context: volume.context.clone(),
    };
    match testing::record(|plan| Rbd::node_stage(args, plan))?.source {
        Source::Rbd(rbd) => Ok(rbd),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_maps_the_image_with_the_key_of_the_document() {
    let _ceph = start();
    testing::set_secret(BACKEND, "key", "AQ==");
    let volume = create("pvc", 64).unwrap();
    let rbd = staged(mounted(), &volume).unwrap();
    assert_eq!(rbd.monitors, ["192.0.2.1:6789", "192.0.2.2:6789"]);
    assert_eq!(rbd.access, ImageAccess::Shared);
    let image = RbdImage {
        cluster: model::CLUSTER.to_owned(),
        pool: "kubernetes".to_owned(),
        namespace: None,
        name: "csi-vol-pvc".to_owned(),
        id: "id-1".to_owned(),
    };
    assert_eq!(rbd.image, image);
    let cephx = Cephx {
        user: CephxUser::Name("kubernetes".to_owned()),
        scope: BACKEND,
        key: "key".to_owned(),
    };
    assert_eq!(rbd.cephx, Some(cephx));
}

#[test]
fn a_user_of_the_class_comes_before_the_documents() {
    let _ceph = start();
    for (name, value) in [("userID", "node"), ("userKey", "AQ==")] {
        testing::set_secret(Scope::Request, name, value);
    }
    let volume = create("pvc", 64).unwrap();
    let cephx = staged(mounted(), &volume).unwrap().cephx.unwrap();
    assert_eq!(cephx.user, CephxUser::Secret("userID".to_owned()));
    assert_eq!(
        (cephx.scope, cephx.key.as_str()),
        (Scope::Request, "userKey")
    );
}

#[test]
fn an_image_is_mapped_as_its_capability_says() {
    let _ceph = start();
    testing::set_secret(BACKEND, "key", "AQ==");
    let mut exclusive = args("exclusive", 64);
    let option = ("mapOptions".to_owned(), "krbd:exclusive".to_owned());
    exclusive.parameters.push(option);
    let exclusive = Rbd::create_volume(exclusive).unwrap();
    let shared = create("shared", 64).unwrap();
    for (volume, mode, access) in [
        (
            &exclusive,
            AccessMode::SingleNodeMultiWriter,
            ImageAccess::Exclusive,
        ),
        (&shared, AccessMode::SingleNodeWriter, ImageAccess::Shared),
        (
            &exclusive,
            AccessMode::MultiNodeMultiWriter,
            ImageAccess::Shared,
        ),
        (
            &exclusive,
            AccessMode::MultiNodeReaderOnly,
            ImageAccess::ReadOnly,
        ),
        (
            &shared,
            AccessMode::SingleNodeReaderOnly,
            ImageAccess::ReadOnly,
        ),
    ] {
        let rbd = staged(capability(AccessType::Block, mode), volume).unwrap();
        assert_eq!(rbd.access, access, "{mode:?}");
    }
}

#[test]
fn a_context_without_an_image_is_refused() {
    let _ceph = start();
    testing::set_secret(BACKEND, "key", "AQ==");
    let mut volume = create("pvc", 64).unwrap();
    volume.context.retain(|(key, _)| key != "imageID");
    assert!(code(staged(mounted(), &volume)).is_some());
}

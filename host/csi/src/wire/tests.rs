//! The content of the descriptors, and that no message with a secret can be formatted. Another test compares them with the specification's, by the
//! official module; the lists here show a change where it is made.

use super::*;
use csi::v1 as wire;
use protox::prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};
use std::collections::{BTreeMap, BTreeSet};
use wasmount_core::rpc::Rpc;

const SECRET: &str = "hunter2-hunter2";

fn descriptors() -> DescriptorPool {
    DescriptorPool::decode(DESCRIPTOR_SET).unwrap()
}

fn is_secret(pool: &DescriptorPool, field: &FieldDescriptor) -> bool {
    let mark = pool.get_extension_by_name("csi.v1.csi_secret").unwrap();
    field.options().get_extension(&mark).as_bool() == Some(true)
}

/// Name of the secret field of every message that has one.
fn secret_fields(pool: &DescriptorPool) -> BTreeMap<String, String> {
    let secret = |message: MessageDescriptor| {
        let field = message.fields().find(|field| is_secret(pool, field))?;
        Some((message.name().to_owned(), field.name().to_owned()))
    };
    pool.all_messages().filter_map(secret).collect()
}

#[test]
fn services_and_methods_are_those_of_csi_1_13() {
    let served = descriptors()
        .services()
        .filter(|service| service.package_name() == "csi.v1")
        .flat_map(|service| {
            let name = service.name().to_owned();
            service
                .methods()
                .map(|method| (name.clone(), method.name().to_owned()))
                .collect::<Vec<_>>()
        })
        .collect::<Vec<_>>();
    let known = Rpc::ALL
        .iter()
        .map(|rpc| (rpc.service().to_owned(), rpc.name().to_owned()))
        .collect::<Vec<_>>();
    assert_eq!(served, known);
    assert_eq!(served.len(), 36);
}

#[test]
fn only_snapshot_metadata_streams() {
    let pool = descriptors();
    let streams = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .filter(|method| method.is_server_streaming() || method.is_client_streaming())
        .map(|method| method.name().to_owned())
        .collect::<Vec<_>>();
    assert_eq!(streams, ["GetMetadataAllocated", "GetMetadataDelta"]);
}

macro_rules! with_secret {
    ($($message:ident),+ $(,)?) => {
        BTreeMap::from([$({
            let mut request = wire::$message::default();
            request.secrets.insert("password".to_owned(), SECRET.to_owned());
            (stringify!($message).to_owned(), format!("{request:?} {:?}", tonic::Request::new(request.clone())))
        }),+])
    };
}

#[test]
fn no_message_with_a_secret_shows_it_when_formatted() {
    let formatted: BTreeMap<String, String> = with_secret![
        CreateVolumeRequest,
        DeleteVolumeRequest,
        ControllerPublishVolumeRequest,
        ControllerUnpublishVolumeRequest,
        ValidateVolumeCapabilitiesRequest,
        ControllerModifyVolumeRequest,
        ControllerListVolumeHealthRequest,
        ControllerGetVolumeHealthRequest,
        CreateSnapshotRequest,
        DeleteSnapshotRequest,
        ListSnapshotsRequest,
        GetSnapshotRequest,
        ControllerExpandVolumeRequest,
        NodeStageVolumeRequest,
        NodePublishVolumeRequest,
        NodeExpandVolumeRequest,
        NodeGetStorageHealthRequest,
        CreateVolumeGroupSnapshotRequest,
        DeleteVolumeGroupSnapshotRequest,
        GetVolumeGroupSnapshotRequest,
        GetMetadataAllocatedRequest,
        GetMetadataDeltaRequest,
    ];
    for (message, text) in &formatted {
        assert!(text.starts_with(message.as_str()), "{text}");
        assert!(
            !text.contains(SECRET) && !text.contains("password"),
            "{text}"
        );
    }
    let fields = secret_fields(&descriptors());
    assert_eq!(
        formatted.keys().collect::<BTreeSet<_>>(),
        fields.keys().collect()
    );
    assert_eq!(
        fields.values().collect::<BTreeSet<_>>(),
        BTreeSet::from([&"secrets".to_owned()])
    );
}

#[test]
fn mount_flags_are_not_shown_either() {
    let mount = wire::volume_capability::MountVolume {
        mount_flags: vec![format!("password={SECRET}")],
        ..Default::default()
    };
    let capability = wire::VolumeCapability {
        access_type: Some(wire::volume_capability::AccessType::Mount(mount)),
        access_mode: None,
    };
    assert_eq!(
        format!("{capability:?}"),
        "VolumeCapability { access_mode: None, access_type: Some(Mount(MountVolume)) }"
    );
}

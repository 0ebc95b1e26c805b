//! Requests about volumes.

use super::*;
use crate::parse;
use wasmount_core::attributes::Attributes;
use wasmount_core::volume::{
    AccessMode as CoreMode, AccessType as CoreType, ContentSource, MountAccess, VolumeCapability,
};
use wire::volume_content_source::{SnapshotSource, Type as Source};

#[test]
fn a_whole_request_becomes_core_types() {
    let parsed = parse::create_volume(wire::CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        capacity_range: Some(wire::CapacityRange {
            required_bytes: 10,
            limit_bytes: 20,
        }),
        volume_capabilities: vec![capability(
            Some(AccessType::Mount(MountVolume {
                fs_type: "xfs".to_owned(),
                mount_flags: vec!["noatime".to_owned()],
                volume_mount_group: "1000".to_owned(),
            })),
            Mode::MultiNodeMultiWriter.into(),
        )],
        parameters: map(&[("pool", "fast")]),
        secrets: map(&[("password", "hunter2")]),
        volume_content_source: Some(wire::VolumeContentSource {
            r#type: Some(Source::Snapshot(SnapshotSource {
                snapshot_id: "snap".to_owned(),
            })),
        }),
        accessibility_requirements: Some(wire::TopologyRequirement {
            requisite: vec![wire::Topology {
                segments: map(&[("zone", "a")]),
            }],
            preferred: vec![],
        }),
        mutable_parameters: map(&[("iops", "7")]),
    })
    .unwrap();
    assert_eq!(parsed.kind, "volume");
    assert_eq!(parsed.incoming.subject.as_deref(), Some("pvc-1"));
    assert_eq!(parsed.incoming.secrets.get("password"), Some("hunter2"));
    let volume = parsed.arguments;
    assert_eq!(volume.name.as_str(), "pvc-1");
    assert_eq!(
        (volume.capacity.required(), volume.capacity.limit()),
        (Some(10), Some(20))
    );
    assert_eq!(
        volume.capabilities,
        [VolumeCapability {
            access_type: CoreType::Mount(MountAccess {
                fs_type: Some("xfs".to_owned()),
                mount_flags: vec!["noatime".to_owned()],
                volume_mount_group: Some("1000".to_owned()),
            }),
            access_mode: CoreMode::MultiNodeMultiWriter,
        }]
    );
    assert_eq!(
        volume.parameters,
        Attributes::from(map(&[("pool", "fast")]))
    );
    assert_eq!(
        volume.mutable_parameters,
        Attributes::from(map(&[("iops", "7")]))
    );
    assert!(
        matches!(volume.content_source, Some(ContentSource::Snapshot(id)) if id.as_str() == "snap")
    );
    let place = volume.accessibility.unwrap();
    assert_eq!(
        place.requisite.first().unwrap().segments.get("zone"),
        Some("a")
    );
    assert!(place.preferred.is_empty());
}

#[test]
fn a_required_field_that_is_missing_is_named() {
    let no_fields = [
        (
            refusal(parse::create_volume(Default::default())),
            "name is empty",
        ),
        (
            refusal(parse::delete_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::controller_publish_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::controller_unpublish_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::validate_volume_capabilities(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::controller_expand_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::controller_get_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::controller_modify_volume(Default::default())),
            "volume_id is empty",
        ),
    ];
    for (refusal, expected) in no_fields {
        assert_eq!(refusal, expected);
    }
}

#[test]
fn the_next_required_field_is_named_when_the_first_is_there() {
    let volume_id = || "v".to_owned();
    let publish = wire::ControllerPublishVolumeRequest {
        volume_id: volume_id(),
        ..Default::default()
    };
    let to_node = wire::ControllerPublishVolumeRequest {
        node_id: "n".to_owned(),
        ..publish.clone()
    };
    let validate = wire::ValidateVolumeCapabilitiesRequest {
        volume_id: volume_id(),
        ..Default::default()
    };
    let expand = wire::ControllerExpandVolumeRequest {
        volume_id: volume_id(),
        ..Default::default()
    };
    let no_capability = wire::CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        ..Default::default()
    };
    let table = [
        (
            refusal(parse::create_volume(no_capability)),
            "volume_capabilities is empty",
        ),
        (
            refusal(parse::controller_publish_volume(publish)),
            "node_id is empty",
        ),
        (
            refusal(parse::controller_publish_volume(to_node)),
            "volume_capability is empty",
        ),
        (
            refusal(parse::validate_volume_capabilities(validate)),
            "volume_capabilities is empty",
        ),
        (
            refusal(parse::controller_expand_volume(expand)),
            "capacity_range is empty",
        ),
    ];
    for (refusal, expected) in table {
        assert_eq!(refusal, expected);
    }
}

#[test]
fn growing_needs_a_range_that_says_something() {
    let expand = |capacity_range| wire::ControllerExpandVolumeRequest {
        volume_id: "v".to_owned(),
        capacity_range,
        ..Default::default()
    };
    let nothing = Some(wire::CapacityRange::default());
    let refused = refusal(parse::controller_expand_volume(expand(nothing)));
    assert_eq!(
        refused,
        "capacity_range sets neither required_bytes nor limit_bytes"
    );
    let limited = Some(wire::CapacityRange {
        required_bytes: 0,
        limit_bytes: 9,
    });
    let requested = taken(parse::controller_expand_volume(expand(limited)));
    assert_eq!(
        (requested.capacity.limit(), requested.capability),
        (Some(9), None)
    );
}

#[test]
fn unpublishing_without_a_node_means_all_nodes() {
    let unpublish = |node: &str| {
        let request = wire::ControllerUnpublishVolumeRequest {
            volume_id: "v".to_owned(),
            node_id: node.to_owned(),
            ..Default::default()
        };
        taken(parse::controller_unpublish_volume(request))
            .1
            .map(|node| node.into_string())
    };
    assert_eq!(
        [unpublish(""), unpublish("n")],
        [None, Some("n".to_owned())]
    );
}

//! Fields that several requests share, tested with CreateVolume and ListVolumes: capabilities, capacities, sources, pages, maps.

use super::*;
use crate::parse;
use wasmount_core::volume::{
    AccessMode as CoreMode, AccessType as CoreType, ContentSource, VolumeCapability,
};
use wire::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};

fn create() -> wire::CreateVolumeRequest {
    wire::CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        volume_capabilities: vec![mount_capability()],
        ..Default::default()
    }
}

#[test]
fn a_capability_without_type_or_mode_is_refused() {
    let table = [
        (
            capability(None, 1),
            "volume_capabilities has no access_type",
        ),
        (
            wire::VolumeCapability {
                access_mode: None,
                ..mount_capability()
            },
            "volume_capabilities has no access_mode",
        ),
        (
            block_capability(0),
            "volume_capabilities has an access_mode of UNKNOWN",
        ),
        (
            block_capability(-1),
            "volume_capabilities has a negative access_mode",
        ),
    ];
    for (capability, expected) in table {
        let request = wire::CreateVolumeRequest {
            volume_capabilities: vec![capability],
            ..create()
        };
        assert_eq!(refusal(parse::create_volume(request)), expected);
    }
}

#[test]
fn every_access_mode_is_taken_and_unknown_ones_keep_numbers() {
    let modes = (1..=8).map(|mode| {
        let request = wire::CreateVolumeRequest {
            volume_capabilities: vec![block_capability(mode)],
            ..create()
        };
        taken(parse::create_volume(request)).capabilities.remove(0)
    });
    let expected = [
        CoreMode::SingleNodeWriter,
        CoreMode::SingleNodeReaderOnly,
        CoreMode::MultiNodeReaderOnly,
        CoreMode::MultiNodeSingleWriter,
        CoreMode::MultiNodeMultiWriter,
        CoreMode::SingleNodeSingleWriter,
        CoreMode::SingleNodeMultiWriter,
        CoreMode::Other(8),
    ]
    .map(|access_mode| VolumeCapability {
        access_type: CoreType::Block,
        access_mode,
    });
    assert_eq!(modes.collect::<Vec<_>>(), expected);
}

#[test]
fn mount_flags_are_bounded_and_without_nul() {
    let refused = |mount| {
        let requested = capability(
            Some(AccessType::Mount(mount)),
            Mode::SingleNodeWriter.into(),
        );
        refusal(parse::create_volume(wire::CreateVolumeRequest {
            volume_capabilities: vec![requested],
            ..create()
        }))
    };
    let flags = |flags: &[&str]| MountVolume {
        mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        ..Default::default()
    };
    assert_eq!(
        refused(flags(&["ro", "a\0b"])),
        "mount_flags contains a NUL byte"
    );
    assert_eq!(
        refused(flags(&[&"f".repeat(4096), "g"])),
        "mount_flags is 4097 bytes long, at most 4096 are allowed"
    );
    let fs_type = MountVolume {
        fs_type: "\0".to_owned(),
        ..Default::default()
    };
    assert_eq!(refused(fs_type), "fs_type contains a NUL byte");
}

#[test]
fn capacities_are_taken_when_some_volume_could_have_them() {
    let table = [
        (None, (None, None)),
        (Some((0, 0)), (None, None)),
        (Some((5, 0)), (Some(5), None)),
        (Some((0, 5)), (None, Some(5))),
        (Some((5, 5)), (Some(5), Some(5))),
        (Some((i64::MAX, 0)), (Some(i64::MAX as u64), None)),
    ];
    for (range, expected) in table {
        let capacity_range = range.map(|(required_bytes, limit_bytes)| wire::CapacityRange {
            required_bytes,
            limit_bytes,
        });
        let capacity = taken(parse::create_volume(wire::CreateVolumeRequest {
            capacity_range,
            ..create()
        }))
        .capacity;
        assert_eq!((capacity.required(), capacity.limit()), expected);
    }
}

#[test]
fn capacities_that_no_volume_could_have_are_refused() {
    let table = [
        ((-1, 0), "required_bytes is negative"),
        ((0, -1), "limit_bytes is negative"),
        ((i64::MIN, i64::MIN), "required_bytes is negative"),
        ((6, 5), "capacity_range requires more than its limit"),
    ];
    for ((required_bytes, limit_bytes), expected) in table {
        let capacity_range = Some(wire::CapacityRange {
            required_bytes,
            limit_bytes,
        });
        let request = wire::CreateVolumeRequest {
            capacity_range,
            ..create()
        };
        assert_eq!(refusal(parse::create_volume(request)), expected);
    }
}

#[test]
fn a_content_source_names_a_snapshot_or_a_volume() {
    let source = |r#type| {
        let volume_content_source = Some(wire::VolumeContentSource { r#type });
        parse::create_volume(wire::CreateVolumeRequest {
            volume_content_source,
            ..create()
        })
    };
    let volume = Source::Volume(VolumeSource {
        volume_id: "v".to_owned(),
    });
    let taken = taken(source(Some(volume))).content_source;
    assert!(matches!(taken, Some(ContentSource::Volume(id)) if id.as_str() == "v"));

    let refused = "volume_content_source names neither a snapshot nor a volume";
    assert_eq!(refusal(source(None)), refused);
    let empty = Source::Volume(VolumeSource::default());
    assert_eq!(
        refusal(source(Some(empty))),
        "volume_id of volume_content_source is empty"
    );
    let empty = Source::Snapshot(SnapshotSource::default());
    assert_eq!(
        refusal(source(Some(empty))),
        "snapshot_id of volume_content_source is empty"
    );
}

#[test]
fn a_page_begins_at_its_token_and_ends_at_the_asked_size() {
    let tokens = tokens(Rpc::ListVolumes);
    let page = |max_entries, token: &str| {
        let request = wire::ListVolumesRequest {
            max_entries,
            starting_token: token.to_owned(),
        };
        parse::list_volumes(request, &tokens)
    };
    let all = taken(page(0, ""));
    assert_eq!((all.max_entries, all.starting_token), (None, None));
    let some = taken(page(7, &tokens.seal("next")));
    assert_eq!(
        (some.max_entries, some.starting_token),
        (Some(7), Some("next".to_owned()))
    );
    assert_eq!(refusal(page(-1, "")), "max_entries is negative");
    assert_eq!(page(7, "next").unwrap_err().code(), Code::Aborted);
}

#[test]
fn a_map_over_4_kib_is_refused_but_for_what_kubernetes_adds() {
    let parameters = |bytes: usize, added: usize| {
        let (own, added) = ("v".repeat(bytes - 1), "a".repeat(added));
        let parameters = map(&[("k", &own), ("csi.storage.k8s.io/pvc/name", &added)]);
        parse::create_volume(wire::CreateVolumeRequest {
            parameters,
            ..create()
        })
    };
    let whole = taken(parameters(4096, 253)).parameters;
    assert_eq!(whole.iter().count(), 2);
    let refused = "parameters is 4097 bytes long, at most 4096 are allowed";
    assert_eq!(refusal(parameters(4097, 0)), refused);
    // The exemption of Kubernetes' keys does not bypass the limit.
    let name = "csi.storage.k8s.io/pvc/name".len();
    assert_eq!(refusal(parameters(1, 4097 - name)), refused);
}

#[test]
fn strings_of_a_capability_have_at_most_128_bytes() {
    let of_type = |bytes: usize| {
        let mount = MountVolume {
            fs_type: "f".repeat(bytes),
            ..Default::default()
        };
        let requested = capability(
            Some(AccessType::Mount(mount)),
            Mode::SingleNodeWriter.into(),
        );
        parse::create_volume(wire::CreateVolumeRequest {
            volume_capabilities: vec![requested],
            ..create()
        })
    };
    taken(of_type(128));
    assert_eq!(
        refusal(of_type(129)),
        "fs_type is 129 bytes long, at most 128 are allowed"
    );
}

#[test]
fn a_rejection_never_repeats_the_value() {
    let request = wire::DeleteVolumeRequest {
        volume_id: "hunter2\0".to_owned(),
        ..Default::default()
    };
    assert_eq!(
        refusal(parse::delete_volume(request)),
        "volume_id contains a NUL byte"
    );
}

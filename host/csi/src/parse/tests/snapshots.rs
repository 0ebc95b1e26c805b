//! Requests about snapshots, groups of them, and their metadata.

use super::*;
use crate::parse;
use wasmount_core::names::VolumeId;

#[test]
fn a_required_field_that_is_missing_is_named() {
    let named = wire::CreateSnapshotRequest {
        source_volume_id: "v".to_owned(),
        ..Default::default()
    };
    let group = wire::CreateVolumeGroupSnapshotRequest {
        name: "g".to_owned(),
        ..Default::default()
    };
    let member = wire::CreateVolumeGroupSnapshotRequest {
        source_volume_ids: vec![String::new()],
        ..group.clone()
    };
    let base = wire::GetMetadataDeltaRequest {
        base_snapshot_id: "b".to_owned(),
        ..Default::default()
    };
    let table = [
        (
            refusal(parse::create_snapshot(Default::default())),
            "source_volume_id is empty",
        ),
        (refusal(parse::create_snapshot(named)), "name is empty"),
        (
            refusal(parse::delete_snapshot(Default::default())),
            "snapshot_id is empty",
        ),
        (
            refusal(parse::get_snapshot(Default::default())),
            "snapshot_id is empty",
        ),
        (
            refusal(parse::create_volume_group_snapshot(Default::default())),
            "name is empty",
        ),
        (
            refusal(parse::create_volume_group_snapshot(group)),
            "source_volume_ids is empty",
        ),
        (
            refusal(parse::create_volume_group_snapshot(member)),
            "source_volume_ids is empty",
        ),
        (
            refusal(parse::delete_volume_group_snapshot(Default::default())),
            "group_snapshot_id is empty",
        ),
        (
            refusal(parse::get_volume_group_snapshot(Default::default())),
            "group_snapshot_id is empty",
        ),
        (
            refusal(parse::get_metadata_allocated(Default::default())),
            "snapshot_id is empty",
        ),
        (
            refusal(parse::get_metadata_delta(Default::default())),
            "base_snapshot_id is empty",
        ),
        (
            refusal(parse::get_metadata_delta(base)),
            "target_snapshot_id is empty",
        ),
    ];
    for (refusal, expected) in table {
        assert_eq!(refusal, expected);
    }
}

#[test]
fn a_list_can_be_of_all_of_one_source_or_of_one_snapshot() {
    let list = |source: &str, snapshot: &str| {
        let request = wire::ListSnapshotsRequest {
            source_volume_id: source.to_owned(),
            snapshot_id: snapshot.to_owned(),
            ..Default::default()
        };
        let tokens = tokens(Rpc::ListSnapshots);
        let request = taken(parse::list_snapshots(request, &tokens));
        (
            request.source_volume.map(|id| id.into_string()),
            request.snapshot.map(|id| id.into_string()),
        )
    };
    assert_eq!(list("", ""), (None, None));
    assert_eq!(list("v", ""), (Some("v".to_owned()), None));
    assert_eq!(list("", "s"), (None, Some("s".to_owned())));
}

#[test]
fn a_token_of_one_source_is_rejected_for_another() {
    let tokens = tokens(Rpc::ListSnapshots);
    let v = VolumeId::parse("volume_id", "v").unwrap();
    let token = tokens.clone().of_source(Some(&v)).seal("next");
    let list = |source: &str| {
        let request = wire::ListSnapshotsRequest {
            source_volume_id: source.to_owned(),
            starting_token: token.clone(),
            ..Default::default()
        };
        parse::list_snapshots(request, &tokens)
    };
    let page = taken(list("v")).page;
    assert_eq!(page.starting_token.as_deref(), Some("next"));
    for other in ["", "w"] {
        assert_eq!(list(other).unwrap_err().code(), Code::Aborted);
    }
}

#[test]
fn a_snapshots_place_is_read_and_may_be_absent() {
    let parse = |accessibility_requirements| {
        let request = wire::CreateSnapshotRequest {
            source_volume_id: "v".to_owned(),
            name: "s".to_owned(),
            accessibility_requirements,
            ..Default::default()
        };
        taken(parse::create_snapshot(request)).accessibility
    };
    assert_eq!(parse(None), None);
    let zone = wire::Topology {
        segments: map(&[("zone", "a")]),
    };
    let request = parse(Some(wire::TopologyRequirement {
        requisite: vec![zone.clone(), zone],
        preferred: vec![],
    }));
    assert_eq!(
        request.map(|place| (place.requisite.len(), place.preferred.len())),
        Some((2, 0))
    );
}

#[test]
fn a_group_is_deleted_with_or_without_a_list_of_its_members() {
    let delete = |members: &[&str]| {
        let request = wire::DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: "g".to_owned(),
            snapshot_ids: members.iter().map(|id| (*id).to_owned()).collect(),
            secrets: map(&[("key", "value")]),
        };
        taken(parse::delete_volume_group_snapshot(request)).1.len()
    };
    assert_eq!([delete(&[]), delete(&["a", "b"])], [0, 2]);
}

#[test]
fn extents_are_asked_from_an_offset_in_portions() {
    let request = taken(parse::get_metadata_delta(wire::GetMetadataDeltaRequest {
        base_snapshot_id: "b".to_owned(),
        target_snapshot_id: "t".to_owned(),
        starting_offset: 4096,
        max_results: 3,
        ..Default::default()
    }));
    assert_eq!(
        (request.starting_offset, request.max_results),
        (4096, Some(3))
    );
    assert_eq!(request.base.unwrap().as_str(), "b");
    assert_eq!(request.target.as_str(), "t");
}

#[test]
fn a_negative_offset_is_out_of_range_a_negative_count_invalid() {
    let parsed = |starting_offset, max_results| {
        parse::get_metadata_allocated(wire::GetMetadataAllocatedRequest {
            snapshot_id: "s".to_owned(),
            starting_offset,
            max_results,
            ..Default::default()
        })
    };
    assert_eq!(parsed(-1, 0).unwrap_err().code(), Code::OutOfRange);
    assert_eq!(refusal(parsed(0, -1)), "max_results is negative");
    assert_eq!(taken(parsed(0, 0)).max_results, None);
}

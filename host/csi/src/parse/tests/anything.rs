//! No parser panics on any input: plain bytes, and well-formed protobuf with any fields.

use super::tokens;
use crate::parse::{self, *};
use crate::wire::csi::v1 as wire;
use proptest::prelude::*;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use wasmount_core::driver::{ListSnapshotsRequest, ListVolumeHealthRequest};
use wasmount_core::rpc::Rpc;
use wasmount_core::volume::PageRequest;

/// A protobuf field in wire format, of any message.
#[derive(Debug, Clone)]
enum Field {
    Number(u32, u64),
    Text(u32, String),
    Nested(u32, Vec<Field>),
}

fn fields() -> impl Strategy<Value = Vec<Field>> {
    let tag = 1_u32..=8;
    let number = prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(i64::MAX as u64),
        0_u64..9,
        any::<u64>()
    ];
    let text = prop_oneof![
        Just(String::new()),
        "[a-z/.\0]{1,12}",
        Just("v".repeat(1025))
    ];
    let leaf = prop_oneof![
        (tag.clone(), number).prop_map(|(tag, number)| Field::Number(tag, number)),
        (tag.clone(), text).prop_map(|(tag, text)| Field::Text(tag, text)),
    ];
    let field = leaf.prop_recursive(3, 24, 4, move |inner| {
        (tag.clone(), prop::collection::vec(inner, 0..4))
            .prop_map(|(tag, fields)| Field::Nested(tag, fields))
    });
    prop::collection::vec(field, 0..8)
}

fn encoded(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        match field {
            Field::Number(tag, number) => {
                encode_key(*tag, WireType::Varint, &mut bytes);
                encode_varint(*number, &mut bytes);
            }
            Field::Text(tag, text) => length_delimited(*tag, text.as_bytes(), &mut bytes),
            Field::Nested(tag, fields) => length_delimited(*tag, &encoded(fields), &mut bytes),
        }
    }
    bytes
}

fn length_delimited(tag: u32, content: &[u8], bytes: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, bytes);
    encode_varint(content.len() as u64, bytes);
    bytes.extend_from_slice(content);
}

macro_rules! every_parser {
    ($($parse:ident: $message:ident),+ $(,)?) => {
        /// Passes the bytes to every parser whose message they decode to; returns how many there were.
        fn parse_all(bytes: &[u8]) -> usize {
            let mut decoded = 0;
            $(if let Ok(message) = wire::$message::decode(bytes) {
                decoded += 1;
                // Either result is correct.
                let _ = $parse(message);
            })+
            decoded
        }
    };
}

/// The parser with the tokens of its own list.
fn list_volumes(request: wire::ListVolumesRequest) -> parse::Result<PageRequest> {
    parse::list_volumes(request, &tokens(Rpc::ListVolumes))
}

/// The parser with the tokens of its own list, for snapshots.
fn list_snapshots(request: wire::ListSnapshotsRequest) -> parse::Result<ListSnapshotsRequest> {
    parse::list_snapshots(request, &tokens(Rpc::ListSnapshots))
}

/// The parser with the tokens of its own list, for unhealthy volumes.
fn controller_list_volume_health(
    request: wire::ControllerListVolumeHealthRequest,
) -> parse::Result<ListVolumeHealthRequest> {
    parse::controller_list_volume_health(request, &tokens(Rpc::ControllerListVolumeHealth))
}

every_parser! {
    create_volume: CreateVolumeRequest,
    delete_volume: DeleteVolumeRequest,
    controller_publish_volume: ControllerPublishVolumeRequest,
    controller_unpublish_volume: ControllerUnpublishVolumeRequest,
    validate_volume_capabilities: ValidateVolumeCapabilitiesRequest,
    list_volumes: ListVolumesRequest,
    controller_list_volume_health: ControllerListVolumeHealthRequest,
    controller_get_volume_health: ControllerGetVolumeHealthRequest,
    get_capacity: GetCapacityRequest,
    create_snapshot: CreateSnapshotRequest,
    delete_snapshot: DeleteSnapshotRequest,
    list_snapshots: ListSnapshotsRequest,
    get_snapshot: GetSnapshotRequest,
    controller_expand_volume: ControllerExpandVolumeRequest,
    controller_get_volume: ControllerGetVolumeRequest,
    controller_modify_volume: ControllerModifyVolumeRequest,
    create_volume_group_snapshot: CreateVolumeGroupSnapshotRequest,
    delete_volume_group_snapshot: DeleteVolumeGroupSnapshotRequest,
    get_volume_group_snapshot: GetVolumeGroupSnapshotRequest,
    get_metadata_allocated: GetMetadataAllocatedRequest,
    get_metadata_delta: GetMetadataDeltaRequest,
    node_stage_volume: NodeStageVolumeRequest,
    node_unstage_volume: NodeUnstageVolumeRequest,
    node_publish_volume: NodePublishVolumeRequest,
    node_unpublish_volume: NodeUnpublishVolumeRequest,
    node_get_volume_stats: NodeGetVolumeStatsRequest,
    node_expand_volume: NodeExpandVolumeRequest,
    node_get_volume_health: NodeGetVolumeHealthRequest,
    node_get_storage_health: NodeGetStorageHealthRequest,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        parse_all(&bytes);
    }

    #[test]
    fn arbitrary_fields_are_taken_or_refused(fields in fields()) {
        parse_all(&encoded(&fields));
    }

    /// A message without a name or id is rejected: its first required field is missing.
    #[test]
    fn a_volume_without_a_name_is_never_taken(mut fields in fields()) {
        fields.retain(|field| !matches!(field, Field::Text(1, _) | Field::Nested(1, _)));
        if let Ok(message) = wire::CreateVolumeRequest::decode(encoded(&fields).as_slice()) {
            prop_assert_eq!(parse::create_volume(message).unwrap_err().to_string(), "name is empty");
        }
    }
}

#[test]
fn the_generator_of_fields_makes_messages_that_decode() {
    let volume = [
        Field::Text(1, "v".to_owned()),
        Field::Nested(3, vec![Field::Nested(1, vec![])]),
    ];
    assert!(parse_all(&encoded(&volume)) > 0);
}

//! The streams of SnapshotMetadata as a client reads them, answer by answer, and whether each is in order.

use crate::conformance::driver::Driver;
use futures::TryStreamExt;
use tonic::Status;
use wasmount_csi::wire::csi::v1::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};

/// One answer of a stream, of either call.
pub(crate) struct Answer {
    kind: i32,
    capacity: i64,
    pub(crate) ranges: Vec<(usize, usize)>,
}

/// Offset and size of each.
pub(crate) fn ranges(entries: Vec<BlockMetadata>) -> Vec<(usize, usize)> {
    let whole = |number: i64| usize::try_from(number).unwrap();
    let range = |it: BlockMetadata| (whole(it.byte_offset), whole(it.size_bytes));
    entries.into_iter().map(range).collect()
}

/// GetMetadataAllocated, to its end.
pub(crate) async fn allocated(
    driver: &Driver,
    request: GetMetadataAllocatedRequest,
) -> Result<Vec<Answer>, Status> {
    let mut client = driver.clients().snapshot_metadata;
    let stream = client.get_metadata_allocated(request).await?.into_inner();
    let answer = |it: GetMetadataAllocatedResponse| Answer {
        kind: it.block_metadata_type,
        capacity: it.volume_capacity_bytes,
        ranges: ranges(it.block_metadata),
    };
    stream.map_ok(answer).try_collect().await
}

/// GetMetadataDelta, to its end.
pub(crate) async fn changed(
    driver: &Driver,
    request: GetMetadataDeltaRequest,
) -> Result<Vec<Answer>, Status> {
    let mut client = driver.clients().snapshot_metadata;
    let stream = client.get_metadata_delta(request).await?.into_inner();
    let answer = |it: GetMetadataDeltaResponse| Answer {
        kind: it.block_metadata_type,
        capacity: it.volume_capacity_bytes,
        ranges: ranges(it.block_metadata),
    };
    stream.map_ok(answer).try_collect().await
}

pub(crate) fn of(snapshot: &str) -> GetMetadataAllocatedRequest {
    GetMetadataAllocatedRequest {
        snapshot_id: snapshot.to_owned(),
        ..GetMetadataAllocatedRequest::default()
    }
}

pub(crate) fn between(base: &str, target: &str) -> GetMetadataDeltaRequest {
    GetMetadataDeltaRequest {
        base_snapshot_id: base.to_owned(),
        target_snapshot_id: target.to_owned(),
        ..GetMetadataDeltaRequest::default()
    }
}

/// All ranges of a volume with this capacity, once every answer has been found to be in order, with as many ranges at most.
pub(crate) fn joined(answers: &[Answer], capacity: i64, most: usize) -> Vec<(usize, usize)> {
    let kinds = [
        BlockMetadataType::FixedLength,
        BlockMetadataType::VariableLength,
    ]
    .map(i32::from);
    let first = answers.first().map(|it| it.kind);
    assert!(first.is_some_and(|kind| kinds.contains(&kind)), "{first:?}");
    for answer in answers {
        assert_eq!(answer.capacity, capacity);
        assert_eq!(Some(answer.kind), first, "the type changes within a stream");
        assert!(
            answer.ranges.len() <= most,
            "{} ranges",
            answer.ranges.len()
        );
    }
    let ranges: Vec<_> = answers.iter().flat_map(|it| it.ranges.clone()).collect();
    let mut end = 0;
    for (offset, size) in &ranges {
        assert!(*offset >= end && *size > 0, "{ranges:?}");
        end = offset + size;
    }
    ranges
}

/// Copies ranges of one content over another.
pub(crate) fn applied(mut onto: Vec<u8>, ranges: &[(usize, usize)], from: &[u8]) -> Vec<u8> {
    for (offset, size) in ranges {
        onto[*offset..offset + size].copy_from_slice(&from[*offset..offset + size]);
    }
    onto
}

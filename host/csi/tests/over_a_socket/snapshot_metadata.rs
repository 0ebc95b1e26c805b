//! Streams of extents: complete, in portions, at the client's pace.

use crate::support::backend::EXTENT_BYTES;
use crate::support::{Served, refused, until};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tonic::{Code, Status, Streaming};
use wasmount_csi::wire::csi::v1 as wire;

fn allocated(
    snapshot: &str,
    starting_offset: i64,
    max_results: i32,
) -> wire::GetMetadataAllocatedRequest {
    wire::GetMetadataAllocatedRequest {
        snapshot_id: snapshot.to_owned(),
        starting_offset,
        max_results,
        ..Default::default()
    }
}

/// Offsets of all extents, message by message.
async fn offsets(
    mut stream: Streaming<wire::GetMetadataAllocatedResponse>,
) -> Result<Vec<Vec<i64>>, Status> {
    let mut messages = Vec::new();
    while let Some(message) = stream.message().await? {
        assert_eq!(message.block_metadata_type, 1);
        messages.push(
            message
                .block_metadata
                .into_iter()
                .map(|extent| extent.byte_offset)
                .collect(),
        );
    }
    Ok(messages)
}

#[tokio::test]
async fn all_extents_arrive_in_portions_of_the_size_that_was_asked() {
    let served = Served::whole();
    let mut metadata = served.metadata().await;
    // Five extents, each followed by a gap.
    let snapshot = (10 * EXTENT_BYTES).to_string();
    let stream = metadata
        .get_metadata_allocated(allocated(&snapshot, 0, 2))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        offsets(stream).await.unwrap(),
        [vec![0, 8192], vec![16384, 24576], vec![32768]]
    );
    // Whatever the size of the portions.
    assert_eq!(served.backend.pages.load(Ordering::SeqCst), 1);
    let stream = metadata
        .get_metadata_allocated(allocated(&snapshot, 16384, 0))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(offsets(stream).await.unwrap(), [vec![16384, 24576, 32768]]);
}

#[tokio::test]
async fn the_difference_of_two_snapshots_is_streamed_too() {
    let served = Served::whole();
    let delta = |base: &str| wire::GetMetadataDeltaRequest {
        base_snapshot_id: base.to_owned(),
        target_snapshot_id: "8192".to_owned(),
        ..Default::default()
    };
    let mut metadata = served.metadata().await;
    let mut stream = metadata
        .get_metadata_delta(delta("4096"))
        .await
        .unwrap()
        .into_inner();
    let message = stream.message().await.unwrap().unwrap();
    assert_eq!(message.volume_capacity_bytes, 8192);
    assert_eq!(
        message.block_metadata,
        [wire::BlockMetadata {
            byte_offset: 0,
            size_bytes: 4096
        }]
    );
    assert_eq!(stream.message().await.unwrap(), None);

    let mut stream = metadata
        .get_metadata_delta(delta("gone"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(stream.message().await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn an_empty_snapshot_is_one_message_without_extents() {
    let served = Served::whole();
    let stream = served
        .metadata()
        .await
        .get_metadata_allocated(allocated("0", 0, 0))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(offsets(stream).await.unwrap(), [Vec::<i64>::new()]);
}

#[tokio::test]
async fn a_negative_offset_is_out_of_range() {
    let served = Served::whole();
    let answer = served
        .metadata()
        .await
        .get_metadata_allocated(allocated("8192", -1, 0))
        .await;
    assert_eq!(refused(answer).0, Code::OutOfRange);
}

#[tokio::test]
async fn pages_are_fetched_at_the_pace_of_the_client() {
    let served = Served::whole();
    // A thousand pages of ten thousand extents: 200 MB on the wire.
    let pages = 1000;
    // The client's window of HTTP/2 takes 2 MiB, some ten pages. A host that does not wait for its client fetches all thousand.
    let ahead = 100;
    let snapshot = (pages * 10_000 * 2 * EXTENT_BYTES).to_string();
    let fetched = || served.backend.pages.load(Ordering::SeqCst);
    let mut metadata = served.metadata().await;
    let mut stream = metadata
        .get_metadata_allocated(allocated(&snapshot, 0, 0))
        .await
        .unwrap()
        .into_inner();
    stream.message().await.unwrap().unwrap();
    // Test and host share one thread, so that each call lets the stream go on as far as it can.
    for _ in 0..20 {
        served.answers().await;
    }
    let unread = fetched();
    assert!(
        unread < ahead,
        "{unread} pages were fetched for a client that took one"
    );

    drop(stream);
    drop(metadata);
    for _ in 0..20 {
        served.answers().await;
    }
    let left = fetched();
    assert!(
        left < ahead,
        "{left} pages were fetched for a client that left after {unread}"
    );
}

#[tokio::test]
async fn many_extents_are_split_over_several_answers() {
    let served = Served::whole();
    let snapshot = (25_000 * 2 * EXTENT_BYTES).to_string();
    for max_results in [0, i32::MAX] {
        let stream = served
            .metadata()
            .await
            .get_metadata_allocated(allocated(&snapshot, 0, max_results))
            .await
            .unwrap()
            .into_inner();
        let lengths = offsets(stream).await.unwrap();
        let lengths: Vec<_> = lengths.into_iter().map(|offsets| offsets.len()).collect();
        assert_eq!(lengths, [10_000, 10_000, 5_000]);
    }
}

#[tokio::test]
async fn as_many_messages_as_extents_take_as_many_calls_as_pages() {
    let served = Served::whole();
    let pages = 3;
    let snapshot = (pages * 10_000 * 2 * EXTENT_BYTES).to_string();
    let mut stream = served
        .metadata()
        .await
        .get_metadata_allocated(allocated(&snapshot, 0, 1))
        .await
        .unwrap()
        .into_inner();
    let mut next = 0;
    while let Some(message) = stream.message().await.unwrap() {
        let [extent] = message.block_metadata.as_slice() else {
            panic!("{message:?}");
        };
        assert_eq!(extent.byte_offset, next);
        next += 2 * EXTENT_BYTES as i64;
    }
    assert_eq!(next, (pages * 10_000 * 2 * EXTENT_BYTES) as i64);
    assert_eq!(served.backend.pages.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn from_the_end_of_the_volume_on_there_is_nothing() {
    let served = Served::whole();
    let stream = served
        .metadata()
        .await
        .get_metadata_allocated(allocated("8192", 8192, 0))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(offsets(stream).await.unwrap(), [Vec::<i64>::new()]);
}

/// A stream after its first page, whose second page never arrives.
async fn waiting(
    served: &Served,
    timeout: Option<Duration>,
) -> Streaming<wire::GetMetadataAllocatedResponse> {
    let mut request = tonic::Request::new(allocated("waits", 0, 1));
    if let Some(timeout) = timeout {
        request.set_timeout(timeout);
    }
    let mut metadata = served.metadata().await;
    let stream = metadata.get_metadata_allocated(request).await;
    let mut stream = stream.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    until("the second page is asked for", || {
        served.backend.pages.load(Ordering::SeqCst) == 2
    })
    .await;
    stream
}

#[tokio::test]
async fn a_page_without_a_client_is_cancelled() {
    let served = Served::whole();
    let stream = waiting(&served, None).await;
    assert_eq!(served.backend.stopped.load(Ordering::SeqCst), 0);
    drop(stream);
    until("the call is told to stop", || {
        served.backend.stopped.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test]
async fn a_deadline_within_a_stream_ends_the_page_under_way() {
    let served = Served::whole();
    // Long enough for the first page on a busy machine.
    let mut stream = waiting(&served, Some(Duration::from_secs(3))).await;
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let message = "the client's deadline passed before the end of GetMetadataAllocated";
    assert!(status.message().starts_with(message), "{status}");
    until("the call is told to stop", || {
        served.backend.stopped.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test]
async fn an_unread_stream_does_not_block_the_snapshot() {
    let served = Served::whole();
    let stream = waiting(&served, None).await;
    let delete = wire::DeleteSnapshotRequest {
        snapshot_id: "waits".to_owned(),
        ..Default::default()
    };
    let mut controller = served.controller().await;
    controller.delete_snapshot(delete).await.unwrap();
    assert_eq!(served.backend.stopped.load(Ordering::SeqCst), 0);
    drop(stream);
}

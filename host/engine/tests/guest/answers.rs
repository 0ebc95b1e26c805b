//! Answers of a live guest: valid ones are returned, invalid ones are rejected. The single rules are unit tests of the checker.

use crate::harness::{Fixture, directory, volume_id};
use wasmount_core::backend::{Backend, BackendError, ControllerExpand};
use wasmount_core::code::Code;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_core::volume::{CapacityRange, PageRequest};

#[tokio::test]
async fn an_answer_within_the_rules_obeyed() {
    let volume = Fixture::misbehave().await.create("").await.unwrap();
    assert_eq!(volume.id, volume_id("volume-1"));
    assert_eq!(volume.capacity_bytes, 1 << 30);
    let volume = Fixture::misbehave()
        .await
        .create("unknown-size")
        .await
        .unwrap();
    assert_eq!(volume.capacity_bytes, 0);
}

#[tokio::test]
async fn an_answer_within_the_rules_violated() {
    let fixture = Fixture::misbehave().await;
    for (behaviour, expected) in [
        ("empty-id", "volume_id is empty"),
        (
            "long-id",
            "volume_id is 129 bytes long, at most 128 are allowed",
        ),
        ("nul-id", "volume_id contains a NUL byte"),
        (
            "big-context",
            "volume_context is 4099 bytes long, at most 4096 are allowed",
        ),
        ("key-twice", "volume_context has a key twice"),
        (
            "too-large",
            "capacity_bytes 4611686018427387904 is outside of the requested range",
        ),
        ("beyond-csi", "capacity_bytes is above 2^63-1 bytes"),
        ("other-source", "content_source is not the requested one"),
        ("bad-topology", "a topology segment is no valid label"),
    ] {
        match fixture.create(behaviour).await {
            Err(BackendError::BadAnswer {
                plugin,
                function: "create-volume",
                reason,
                ..
            }) => {
                assert_eq!(plugin.name, "misbehave.wasmount.io");
                assert!(reason.starts_with(expected), "{behaviour}: {reason}");
            }
            other => panic!("{behaviour}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn long_ids_where_the_document_allows_them_obeyed() {
    let limits = Limits {
        long_ids: true,
        ..Limits::default()
    };
    let volume = Fixture::with(limits).await.create("long-id").await.unwrap();
    assert_eq!(volume.id.as_str().len(), 129);
}

#[tokio::test]
async fn an_error_of_the_guest_keeps_code_and_message() {
    assert_eq!(
        Fixture::misbehave().await.create("error").await,
        Err(BackendError::Answered {
            code: Code::OutOfRange,
            message: "no such size".to_owned()
        })
    );
}

#[tokio::test]
async fn an_error_of_the_guest_is_short_and_printable() {
    match Fixture::misbehave().await.create("long-error").await {
        Err(BackendError::Answered { message, .. }) => {
            assert_eq!(message, format!("{}…", "e".repeat(2048)));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_size_after_expansion_is_inside_of_the_range() {
    let fixture = Fixture::misbehave().await;
    let call = fixture.call(Rpc::ControllerExpandVolume);
    for (bytes, valid) in [
        ("0", false),
        ("999", false),
        ("1000", true),
        ("2001", false),
    ] {
        let args = ControllerExpand {
            id: volume_id(bytes),
            capacity: CapacityRange::new(Some(1000), Some(2000)).unwrap(),
            capability: None,
        };
        let answer = fixture.backend.controller_expand(&call, args).await;
        assert_eq!(answer.is_ok(), valid, "{bytes}: {answer:?}");
    }
}

#[tokio::test]
async fn a_page_has_no_more_entries_than_asked() {
    let fixture = Fixture::misbehave().await;
    let call = fixture.call(Rpc::ListVolumes);
    for (count, valid) in [("2", true), ("3", false)] {
        let page = PageRequest {
            max_entries: Some(2),
            starting_token: Some(count.to_owned()),
        };
        let answer = fixture.backend.list_volumes(&call, page).await;
        assert_eq!(answer.is_ok(), valid, "{count}: {answer:?}");
    }
}

#[tokio::test]
async fn a_call_whose_interface_is_missing_is_not_offered() {
    let fixture = Fixture::of(directory().await, Limits::default(), Secrets::default()).await;
    let call = fixture.call(Rpc::DeleteSnapshot);
    let id = wasmount_core::names::SnapshotId::parse("snapshot_id", "s").unwrap();
    assert_eq!(
        fixture.backend.delete_snapshot(&call, id).await,
        Err(BackendError::NotOffered {
            interface: "snapshots"
        })
    );
}

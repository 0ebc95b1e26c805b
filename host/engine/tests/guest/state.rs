//! The durable keys of a guest: isolated, bounded, not on a node, and on stable storage before any other state depends on them.

use crate::harness::{Fixture, attributes, create_volume_with, directory, volume_id};
use wasmount_core::backend::{Backend, BackendError};
use wasmount_core::code::Code;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_core::state::record_bytes;

#[tokio::test]
async fn a_write_is_durable_before_the_answer() {
    let fixture = Fixture::misbehave().await;
    fixture.create("write-state").await.unwrap();
    assert_eq!(
        fixture.memory.events(),
        ["put test.wasmount.io written", "sync"]
    );
}

/// The work is done: an error that Kubernetes treats as final would lose it.
#[tokio::test]
async fn a_write_that_does_not_become_durable_is_asked_for_again() {
    let fixture = Fixture::misbehave().await;
    fixture.memory.fill_disk();
    match fixture.create("write-state").await {
        Err(BackendError::HostFailed {
            code: Code::Unavailable,
            reason,
            ..
        }) => assert!(reason.contains("is not durable"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_without_writes_waits_for_no_disk() {
    let fixture = Fixture::misbehave().await;
    fixture.create("").await.unwrap();
    assert_eq!(fixture.memory.events(), [""; 0]);
}

/// As CreateVolume does that is repeated after it could not store its record.
#[tokio::test]
async fn a_record_that_a_retry_reads_is_durable_before_the_answer() {
    let fixture = Fixture::misbehave().await;
    fixture.memory.fill_disk();
    fixture.create("write-state").await.unwrap_err();
    let answer = fixture.create("read-state").await;
    assert!(matches!(answer, Err(BackendError::HostFailed { .. })));
    fixture.memory.empty_disk();
    for _ in 0..2 {
        fixture.create("read-state").await.unwrap();
    }
    assert_eq!(
        fixture.memory.events(),
        ["put test.wasmount.io written", "sync", "sync", "sync"]
    );
}

#[tokio::test]
async fn a_write_is_durable_even_if_the_guest_traps() {
    let fixture = Fixture::misbehave().await;
    let answer = fixture.create("write-state-and-trap").await;
    assert!(matches!(answer, Err(BackendError::Trapped { .. })));
    assert_eq!(
        fixture.memory.events(),
        ["put test.wasmount.io written", "sync"]
    );
}

#[tokio::test]
async fn a_write_is_durable_before_anything_is_destroyed() {
    let fixture = Fixture::misbehave().await;
    let call = fixture.call(Rpc::DeleteVolume);
    let deleted = fixture
        .backend
        .delete_volume(&call, volume_id("write-and-remove"));
    deleted.await.unwrap();
    assert_eq!(
        fixture.memory.events(),
        [
            "put test.wasmount.io written",
            "sync",
            "pool RemoveDirectory { pool: \"volumes\", path: \"old\" }",
            "removed",
            "remove written",
            "sync",
        ]
    );
}

#[tokio::test]
async fn a_pool_change_is_synced_before_a_record_of_it() {
    let directory = directory().await;
    let fixture = Fixture::of(directory, Limits::default(), Secrets::default()).await;
    let call = fixture.call(Rpc::CreateVolume);
    let created = fixture
        .backend
        .create_volume(&call, create_volume_with(attributes(&[])));
    let id = created.await.unwrap().id;
    let events = fixture.memory.events();
    let pool = "pool: \"volumes\"";
    let path = format!("path: \"{id}\"");
    assert_eq!(
        events,
        [
            format!("pool Stat {{ {pool}, {path} }}"),
            format!("pool CreateDirectory {{ {pool}, {path} }}"),
            format!("pool SetPermissions {{ {pool}, {path}, mode: 511, uid: None, gid: None }}"),
            // Syncs the directory before it promises anything to it.
            format!("pool SetQuota {{ {pool}, {path}, bytes: Some(1073741824) }}"),
            format!("pool Sync {{ {pool}, paths: [] }}"),
            format!("put test.wasmount.io {id}"),
            "sync".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_pool_change_without_a_record_is_synced_too() {
    let fixture = Fixture::misbehave().await;
    fixture.create("make-and-exhaust").await.unwrap_err();
    let tree = fixture.memory.events();
    let [made, synced] = tree.as_slice() else {
        panic!("{tree:?}");
    };
    let path = made.strip_prefix("pool CreateDirectory { pool: \"volumes\", path: ");
    let path = path.and_then(|rest| rest.strip_suffix(" }")).unwrap();
    let expected = format!("pool Sync {{ pool: \"volumes\", paths: [{path}] }}");
    assert_eq!(*synced, expected);
}

#[tokio::test]
async fn state_in_a_node_call_violated() {
    match Fixture::misbehave().await.stage("state-on-node").await {
        Err(BackendError::Answered {
            code: Code::FailedPrecondition,
            message,
        }) => {
            assert!(message.contains("volume context"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn keys_and_values_beyond_their_limits_violated() {
    let fixture = Fixture::misbehave().await;
    for (behaviour, expected) in [
        ("empty-key", "a key of the state is empty"),
        (
            "big-key",
            "the key is 1025 bytes long, at most 1024 are allowed",
        ),
        (
            "big-value",
            "the value is 1048577 bytes long, at most 1048576 are allowed",
        ),
    ] {
        match fixture.create(behaviour).await {
            Err(BackendError::Refused {
                code: Code::Internal,
                reason,
                ..
            }) => {
                assert!(reason.starts_with(expected), "{reason}");
            }
            other => panic!("{behaviour}: {other:?}"),
        }
    }
    assert_eq!(fixture.memory.events(), [""; 0]);
}

#[tokio::test]
async fn as_many_bytes_as_the_limit_obeyed_and_violated() {
    let mut limits = Limits {
        state_bytes: record_bytes("written", 1),
        ..Limits::default()
    };
    let fixture = Fixture::with(limits.clone()).await;
    fixture.create("write-state").await.unwrap();
    // Writing it again takes no more space.
    fixture.create("write-state").await.unwrap();

    limits.state_bytes -= 1;
    let fixture = Fixture::with(limits).await;
    match fixture.create("write-state").await {
        Err(BackendError::Refused {
            code: Code::ResourceExhausted,
            reason,
            ..
        }) => assert!(reason.contains("limits.stateBytes (71 bytes)"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.memory.events(), ["sync"]);
}

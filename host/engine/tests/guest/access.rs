//! The changes that a call may make, by its purpose; and the mark of a call with remaining changes.

use crate::harness::{Fixture, attributes, call, create_volume, misbehave, parts, volume_id};
use crate::memory::Memory;
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::backend::{Backend, BackendError, GetCapacity};
use wasmount_core::code::Code;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_engine::{BackendParts, Candidate};

async fn candidate(behaviour: &str) -> (Candidate, Arc<Memory>) {
    let memory = Arc::new(Memory::default());
    let parts = BackendParts {
        settings: attributes(&[("behaviour", behaviour)]),
        ..parts(&memory, Limits::default(), Secrets::default())
    };
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let component = misbehave().await;
    (component.prepare(parts, &call).await.unwrap(), memory)
}

fn assert_unchanged(memory: &Memory, after: &str) {
    let is_reading =
        |event: &String| event.starts_with("pool List") || event.starts_with("pool Stat");
    let events = memory.events();
    assert!(events.iter().all(is_reading), "{after}: {events:?}");
}

#[tokio::test]
async fn calls_of_admission_change_nothing() {
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    for behaviour in ["destroy-as-another", "destroy-in-check", "destroy-in-probe"] {
        let (candidate, memory) = candidate(behaviour).await;
        // Each call continues after the rejection, and ends as it chooses.
        let info = candidate.plugin_info(&call).await.unwrap();
        let is_other = info.name.as_str() == "another.wasmount.io";
        assert_eq!(is_other, behaviour == "destroy-as-another");
        let checked = candidate.check_settings(&call).await;
        assert_eq!(checked.is_err(), behaviour == "destroy-in-check");
        let probed = candidate.probe(&call).await;
        assert_eq!(probed.is_err(), behaviour == "destroy-in-probe");
        // The same for a serving version.
        let backend = candidate.into_backend(info, []);
        let _ = backend.probe(&call).await;
        assert_unchanged(&memory, behaviour);
    }
}

#[tokio::test]
async fn calls_of_admission_may_look() {
    let (candidate, memory) = candidate("look-in-check").await;
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let warnings = candidate.check_settings(&call).await.unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(memory.events().len(), 1);
}

#[tokio::test]
async fn a_write_of_a_call_that_only_reads_is_the_plugins_fault() {
    let (candidate, memory) = candidate("write-in-probe").await;
    let call = call(Rpc::Probe, Duration::from_secs(60));
    match candidate.probe(&call).await {
        Err(BackendError::Refused {
            function: "probe",
            code: Code::Internal,
            reason,
            ..
        }) => assert!(
            reason.starts_with("state cannot be changed in a call that only reads"),
            "{reason}"
        ),
        other => panic!("{other:?}"),
    }
    assert_unchanged(&memory, "write-in-probe");
}

#[tokio::test]
async fn reading_calls_of_csi_change_nothing() {
    let fixture = Fixture::misbehave().await;
    let call = fixture.call(Rpc::GetCapacity);
    for behaviour in ["write-state", "make-and-exhaust"] {
        let capacity = GetCapacity {
            capabilities: Vec::new(),
            parameters: attributes(&[("behaviour", behaviour)]),
            accessible_topology: None,
        };
        let asked = [
            fixture.backend.get_capacity(&call, capacity).await.err(),
            fixture
                .backend
                .get_volume(&call, volume_id(behaviour))
                .await
                .err(),
            fixture
                .backend
                .volume_health(&call, volume_id(behaviour))
                .await
                .err(),
        ];
        for refused in asked {
            assert!(
                matches!(&refused, Some(BackendError::Refused { .. })),
                "{refused:?}"
            );
        }
    }
    assert_unchanged(&fixture.memory, "reading");
    assert!(!call.effect.is_set());
}

#[tokio::test]
async fn a_call_is_marked_if_something_is_left_of_it() {
    for (behaviour, is_left) in [
        ("make-and-trap", true),
        ("make-and-exhaust", true),
        ("write-and-exhaust", true),
        ("make-undo-and-exhaust", false),
        ("write-undo-and-exhaust", false),
        ("trap", false),
        ("error", false),
    ] {
        let fixture = Fixture::misbehave().await;
        let call = fixture.call(Rpc::CreateVolume);
        let made = fixture
            .backend
            .create_volume(&call, create_volume(behaviour));
        let _ = made.await;
        assert_eq!(call.effect.is_set(), is_left, "{behaviour}");
    }
}

//! Migration of records to another version: requested and checked, not written.

use crate::harness::{attributes, call, engine, misbehave, parts, wasm};
use crate::memory::Memory;
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::backend::BackendError;
use wasmount_core::code::Code;
use wasmount_core::document::Limits;
use wasmount_core::migration::{Migration, StateChanges};
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_core::state::StateEntry;
use wasmount_engine::{BackendParts, LoadedComponent, WasmBackend};

/// The earlier version.
const FROM: &str = "1.0.0";

struct Scene {
    backend: WasmBackend,
    memory: Arc<Memory>,
}

impl Scene {
    async fn of(component: &LoadedComponent, settings: &[(&str, &str)], limits: Limits) -> Self {
        let memory = Arc::new(Memory::default());
        let parts = BackendParts {
            settings: attributes(settings),
            ..parts(&memory, limits, Secrets::default())
        };
        let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
        let candidate = component.prepare(parts, &call).await.unwrap();
        let info = candidate.plugin_info(&call).await.unwrap();
        let backend = candidate.into_backend(info, []);
        Self { backend, memory }
    }

    async fn misbehaving(behaviour: &str) -> Self {
        let settings = [("behaviour", behaviour)];
        Self::of(misbehave().await, &settings, Limits::default()).await
    }

    async fn plan(&self) -> Result<Migration, BackendError> {
        let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
        self.backend.plan_migration(&call, FROM).await
    }

    async fn migrate(&self, page: &[StateEntry]) -> Result<StateChanges, BackendError> {
        let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
        self.backend.migrate(&call, FROM, page).await
    }
}

pub(crate) fn record(key: &str, value: &str) -> StateEntry {
    StateEntry {
        key: key.to_owned(),
        value: value.as_bytes().to_owned(),
        revision: 9,
    }
}

pub(crate) fn put(key: &str, value: &str) -> (String, Option<Vec<u8>>) {
    (key.to_owned(), Some(value.as_bytes().to_owned()))
}

#[tokio::test]
async fn a_page_of_records_becomes_changes_and_nothing_is_written() {
    let migrant = engine().load(wasm("migrant")).await.unwrap();
    let scene = Scene::of(&migrant, &[("schema", "3")], Limits::default()).await;
    assert!(scene.backend.has_migration());
    assert_eq!(scene.plan().await.unwrap(), Migration::Rewriting);
    let changes = scene.migrate(&[record("volume-1", "7")]).await.unwrap();
    let expected = StateChanges::from([
        put("made-by/1.0.0/volume-1", ""),
        put("volume-1", "1.0.0:7"),
    ]);
    assert_eq!(changes, expected);
    assert_eq!(scene.memory.events(), [""; 0]);
    assert_eq!(scene.migrate(&[]).await.unwrap(), StateChanges::new());
}

#[tokio::test]
async fn a_version_without_migrations_needs_none() {
    let directory = crate::harness::directory().await;
    let scene = Scene::of(directory, &[], Limits::default()).await;
    assert!(!scene.backend.has_migration());
    assert_eq!(scene.plan().await.unwrap(), Migration::Unneeded);
    let refused = scene.migrate(&[record("a", "1")]).await;
    assert!(
        matches!(refused, Err(BackendError::NotOffered { interface }) if interface == "state-migration")
    );
}

#[tokio::test]
async fn the_largest_page_goes_through() {
    let scene = Scene::misbehaving("migrate").await;
    let value = "x".repeat(4 << 10);
    let page: Vec<_> = (0..256)
        .map(|key| record(&format!("{key:03}"), &value))
        .collect();
    let changes = scene.migrate(&page).await.unwrap();
    assert_eq!(changes.len(), 256);
    assert_eq!(changes["000"].as_deref(), Some(&b"migrated"[..]));
    let one = [record("one", &"x".repeat(1 << 20))];
    let changes = scene.migrate(&one).await.unwrap();
    assert_eq!(changes, StateChanges::from([put("one", "migrated")]));
}

#[tokio::test]
async fn a_rejection_of_a_version_keeps_its_message() {
    match Scene::misbehaving("refuse-migration").await.plan().await {
        Err(BackendError::Answered { code, message }) => {
            assert_eq!(
                (code, message.as_str()),
                (Code::FailedPrecondition, "go by version 0.0.9")
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_guest_that_writes_during_migration_is_rejected() {
    for (behaviour, words) in [
        (
            "write-in-migration",
            "state is not available while records are migrated",
        ),
        (
            "pool-in-migration",
            "a pool cannot be changed while records are migrated",
        ),
    ] {
        let scene = Scene::misbehaving(behaviour).await;
        let refused = scene.migrate(&[record("a", "1")]).await.unwrap_err();
        assert!(
            refused.to_string().contains(words),
            "{behaviour}: {refused}"
        );
        let events = scene.memory.events();
        let written = |event: &&String| event.starts_with("put") || event.contains("Remove");
        assert_eq!(events.iter().find(written), None, "{events:?}");
    }
}

#[tokio::test]
async fn invalid_changes_and_traps_of_a_migration_are_plugin_faults() {
    let scene = Scene::misbehaving("change-twice").await;
    assert_eq!(scene.plan().await.unwrap(), Migration::Additive);
    let answer = scene.migrate(&[record("a", "1")]).await;
    let words = answer.unwrap_err().to_string();
    assert!(words.contains("a key is changed twice"), "{words}");
    for behaviour in ["trap-in-plan", "trap-in-migration"] {
        let scene = Scene::misbehaving(behaviour).await;
        let trapped = match behaviour {
            "trap-in-plan" => scene.plan().await.err(),
            _ => scene.migrate(&[]).await.err(),
        };
        assert!(
            matches!(trapped, Some(BackendError::Trapped { .. })),
            "{trapped:?}"
        );
    }
    let limits = Limits {
        cpu: Duration::from_millis(100),
        ..Limits::default()
    };
    let settings = [("behaviour", "spin-in-migration")];
    let scene = Scene::of(misbehave().await, &settings, limits).await;
    let words = scene.migrate(&[]).await.unwrap_err().to_string();
    assert!(words.contains("limits.cpu"), "{words}");
}

#[tokio::test]
async fn a_version_may_forget_records() {
    let scene = Scene::misbehaving("migrate-and-forget").await;
    let changes = scene.migrate(&[record("a", "1")]).await.unwrap();
    assert_eq!(changes, StateChanges::from([("a".to_owned(), None)]));
}

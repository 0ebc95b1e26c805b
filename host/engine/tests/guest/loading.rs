//! From bytes to a candidate: what is no plugin is refused in words, what was compiled once is found again.

use crate::harness::{self, call, engine, parts, wasm};
use crate::memory::Memory;
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_core::services::Service;
use wasmount_engine::{Engine, EngineError, EngineOptions};

/// A component without imports or exports.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

async fn refusal(wasm: &[u8], limits: Limits) -> EngineError {
    let component = match engine().load(wasm.to_owned()).await {
        Ok(component) => component,
        Err(error) => return error,
    };
    let parts = parts(&Arc::new(Memory::default()), limits, Secrets::default());
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    component.prepare(parts, &call).await.err().unwrap()
}

#[tokio::test]
async fn a_plugin_shows_what_it_imports_and_exports() {
    let component = harness::directory().await;
    let exports = component.exports();
    assert!(
        exports.contains(&"wasmount:csi/node-stage@0.1.0".to_owned()),
        "{exports:?}"
    );
    let imports = component.imports();
    assert!(
        imports.contains(&"wasmount:csi/pool@0.1.0".to_owned()),
        "{imports:?}"
    );
    assert!(
        !imports.contains(&"wasmount:csi/secrets@0.1.0".to_owned()),
        "{imports:?}"
    );

    let parts = parts(
        &Arc::new(Memory::default()),
        Limits::default(),
        Secrets::default(),
    );
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let candidate = component.prepare(parts, &call).await.unwrap();
    assert_eq!(
        candidate.services(),
        [
            Service::Controller,
            Service::ControllerExpand,
            Service::Capacity,
            Service::NodeStage
        ]
    );
    let info = candidate.plugin_info(&call).await.unwrap();
    assert_eq!(info.name.as_str(), "directory.wasmount.io");
    assert!(candidate.probe(&call).await.unwrap());
}

#[tokio::test]
async fn bytes_that_are_no_component_do_not_compile() {
    for bytes in [&b"garbage"[..], b"", b"\0asm\x01\0\0\0", b"\x7fELF"] {
        let error = refusal(bytes, Limits::default()).await;
        assert!(matches!(error, EngineError::Compile(_)), "{error}");
    }
    let mut torn = wasm("directory");
    torn.truncate(torn.len() / 2);
    assert!(matches!(
        refusal(&torn, Limits::default()).await,
        EngineError::Compile(_)
    ));
}

#[tokio::test]
async fn a_component_without_identity_is_no_plugin() {
    let error = refusal(EMPTY_COMPONENT, Limits::default()).await;
    assert!(matches!(error, EngineError::NoIdentity), "{error}");
}

#[tokio::test]
async fn limits_beyond_what_the_host_was_started_with_are_refused() {
    let memory_bytes = Limits::default().memory_bytes + 1;
    let limits = Limits {
        memory_bytes,
        ..Limits::default()
    };
    let error = refusal(&wasm("directory"), limits).await;
    assert!(
        matches!(error, EngineError::LimitTooHigh { key: "memory", .. }),
        "{error}"
    );
}

#[tokio::test]
async fn memory_that_does_not_even_hold_the_component_is_refused() {
    let limits = Limits {
        memory_bytes: 64 << 10,
        ..Limits::default()
    };
    let error = refusal(&wasm("directory"), limits).await;
    assert!(error.to_string().contains("limits.memory"), "{error}");
}

#[tokio::test]
async fn a_component_is_compiled_once_and_then_found() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("cache");
    let options = || EngineOptions::for_backends(Some(directory.clone()), [&Limits::default()]);
    let first = Engine::new(options())
        .unwrap()
        .load(wasm("directory"))
        .await
        .unwrap();
    assert!(!first.is_from_cache());
    let engine = Engine::new(options()).unwrap();
    let second = engine.load(wasm("directory")).await.unwrap();
    assert!(second.is_from_cache());
    assert_eq!(second.digest(), first.digest());
    assert_eq!(second.exports(), first.exports());
    let parts = parts(
        &Arc::new(Memory::default()),
        Limits::default(),
        Secrets::default(),
    );
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let candidate = second.prepare(parts, &call).await.unwrap();
    assert!(candidate.probe(&call).await.unwrap());
}

#[tokio::test]
async fn a_cache_that_cannot_be_used_costs_only_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let engine = Engine::new(EngineOptions::for_backends(
        Some(file),
        [&Limits::default()],
    ))
    .unwrap();
    assert!(
        !engine
            .load(EMPTY_COMPONENT.to_owned())
            .await
            .unwrap()
            .is_from_cache()
    );

    let options =
        EngineOptions::for_backends(Some(folder.path().join("cache")), [&Limits::default()]);
    let engine = Engine::new(options).unwrap();
    std::fs::remove_dir_all(folder.path().join("cache")).unwrap();
    assert!(
        !engine
            .load(EMPTY_COMPONENT.to_owned())
            .await
            .unwrap()
            .is_from_cache()
    );
}

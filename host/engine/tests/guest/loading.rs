//! From bytes to a candidate: invalid plugins are rejected with a reason, compiled code is found again.

use crate::harness::{self, call, engine, parts, wasm};
use crate::memory::Memory;
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wasmount_core::document::Limits;
use wasmount_core::names::DriverName;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_core::services::Service;
use wasmount_engine::{Compile, Engine, EngineError, EngineOptions, InProcess, Target};

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
    let limits = |table_elements| Limits {
        table_elements,
        ..Limits::default()
    };
    let error = refusal(&wasm("directory"), limits(1_000_001)).await;
    assert!(
        matches!(
            error,
            EngineError::LimitTooHigh {
                key: "tableElements",
                most: 1_000_000,
                ..
            }
        ),
        "{error}"
    );
    // Far more than any document had when the host started, and within the limits of a later one.
    let parts = parts(
        &Arc::new(Memory::default()),
        Limits {
            memory_bytes: 4 << 30,
            ..limits(1_000_000)
        },
        Secrets::default(),
    );
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let component = engine().load(wasm("directory")).await.unwrap();
    assert!(component.prepare(parts, &call).await.is_ok());
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
    let engine = Engine::new(options()).unwrap();
    let first = engine.load(wasm("directory")).await.unwrap();
    assert_eq!(engine.compilations().0, 1);
    let engine = Engine::new(options()).unwrap();
    let second = engine.load(wasm("directory")).await.unwrap();
    assert_eq!(engine.compilations().0, 0);
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
async fn compiled_code_is_found_by_digest_until_unclaimed() {
    let folder = tempfile::tempdir().unwrap();
    let options = || {
        let cache = Some(folder.path().join("cache"));
        EngineOptions::for_backends(cache, [&Limits::default()])
    };
    let engine = Engine::new(options()).unwrap();
    let digest = engine.load(EMPTY_COMPONENT.to_owned()).await.unwrap();
    let digest = digest.digest().to_owned();
    let found = engine.load_compiled(&digest).await.unwrap();
    assert_eq!(found.digest(), digest);
    assert_eq!(engine.compilations().0, 1);
    assert!(engine.load_compiled("sha256:00").await.is_none());

    // After another start it is found on disk.
    let engine = Engine::new(options()).unwrap();
    assert!(engine.load_compiled(&digest).await.is_some());
    let [one, other] = ["one", "other"].map(|name| DriverName::parse(name).unwrap());
    for owner in [&one, &other] {
        let digests = std::slice::from_ref(&digest);
        engine.retain_compiled(owner, digests).await;
    }
    engine.retain_compiled(&one, &[]).await;
    assert!(engine.load_compiled(&digest).await.is_some());
    engine.retain_compiled(&other, &[]).await;
    assert!(engine.load_compiled(&digest).await.is_none());
    let left = std::fs::read_dir(folder.path().join("cache")).unwrap();
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn compiled_code_in_use_stays_without_a_claim() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Some(folder.path().join("cache"));
    let options = EngineOptions::for_backends(cache, [&Limits::default()]);
    let engine = Engine::new(options).unwrap();
    let loaded = engine.load(wasm("directory")).await.unwrap();
    let digest = loaded.digest().to_owned();
    let parts = parts(
        &Arc::new(Memory::default()),
        Limits::default(),
        Secrets::default(),
    );
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let candidate = loaded.prepare(parts, &call).await.unwrap();
    drop(loaded);
    let another = DriverName::parse("another").unwrap();
    engine.retain_compiled(&another, &[]).await;
    assert!(engine.load_compiled(&digest).await.is_some());
    // The candidate was rejected.
    drop(candidate);
    engine.retain_compiled(&another, &[]).await;
    assert!(engine.load_compiled(&digest).await.is_none());
}

/// A compiler that is unavailable at first.
#[derive(Debug, Default)]
struct Flaky {
    asked: AtomicUsize,
}

#[async_trait]
impl Compile for Flaky {
    async fn compile(&self, target: Target, wasm: &[u8]) -> Result<Vec<u8>, EngineError> {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            0 => Err(EngineError::NotCompiled("it was killed".to_owned())),
            1 => Ok(b"no machine code".to_vec()),
            _ => InProcess.compile(target, wasm).await,
        }
    }
}

#[tokio::test]
async fn a_failing_compiler_costs_one_rejection_each() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = Arc::new(Flaky::default());
    for cache in [None, Some(folder.path().join("cache"))] {
        compiler.asked.store(0, Ordering::Relaxed);
        let engine = Engine::new(EngineOptions {
            compiler: compiler.clone(),
            ..EngineOptions::for_backends(cache, [&Limits::default()])
        });
        let engine = engine.unwrap();
        for _ in 0..2 {
            let refused = engine.load(EMPTY_COMPONENT.to_owned()).await;
            assert!(matches!(refused, Err(EngineError::NotCompiled(_))));
        }
        assert!(engine.load(EMPTY_COMPONENT.to_owned()).await.is_ok());
        // It is loaded now.
        assert!(engine.load(EMPTY_COMPONENT.to_owned()).await.is_ok());
        assert_eq!(compiler.asked.load(Ordering::Relaxed), 3);
    }
}

/// Rejects every component, and counts.
#[derive(Debug, Default)]
struct Refusing {
    asked: AtomicUsize,
}

#[async_trait]
impl Compile for Refusing {
    async fn compile(&self, _: Target, _: &[u8]) -> Result<Vec<u8>, EngineError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Err(EngineError::Compile("it takes too long".to_owned()))
    }
}

#[tokio::test]
async fn a_component_that_did_not_compile_is_not_compiled_again() {
    let compiler = Arc::new(Refusing::default());
    let engine = Engine::new(EngineOptions {
        compiler: compiler.clone(),
        ..EngineOptions::for_backends(None, [&Limits::default()])
    });
    let engine = engine.unwrap();
    for _ in 0..3 {
        let refused = engine.load(EMPTY_COMPONENT.to_owned()).await;
        let refused = refused.err().unwrap().to_string();
        assert_eq!(refused, "the component does not compile: it takes too long");
    }
    assert_eq!(compiler.asked.load(Ordering::Relaxed), 1);
    assert!(engine.load(wasm("directory")).await.is_err());
    assert_eq!(compiler.asked.load(Ordering::Relaxed), 2);
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
    engine.load(EMPTY_COMPONENT.to_owned()).await.unwrap();
    assert_eq!(engine.compilations().0, 1);

    let options =
        EngineOptions::for_backends(Some(folder.path().join("cache")), [&Limits::default()]);
    let engine = Engine::new(options).unwrap();
    std::fs::remove_dir_all(folder.path().join("cache")).unwrap();
    engine.load(EMPTY_COMPONENT.to_owned()).await.unwrap();
    assert_eq!(engine.compilations().0, 1);
}

/// A component that imports a function with a name of this length.
fn importing(name_bytes: u8) -> Vec<u8> {
    let mut wasm = EMPTY_COMPONENT.to_owned();
    // The type of a function, and an import of it; lengths are in LEB128.
    wasm.extend([7, 5, 1, 0x40, 0, 1, 0]);
    let length = |bytes: u16| [(bytes & 0x7f) as u8 | 0x80, (bytes >> 7) as u8];
    wasm.push(10);
    wasm.extend(length(u16::from(name_bytes) + 100 + 6));
    wasm.extend([1, 0]);
    wasm.extend(length(u16::from(name_bytes) + 100));
    wasm.extend(std::iter::repeat_n(b'a', usize::from(name_bytes) + 100));
    wasm.extend([1, 0]);
    wasm
}

#[tokio::test]
async fn names_that_are_too_long_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let options = EngineOptions::for_backends(Some(cache.clone()), [&Limits::default()]);
    let engine = Engine::new(options).unwrap();
    let loaded = engine.load(importing(156)).await.unwrap();
    assert_eq!(loaded.imports()[0].len(), 256);
    let refused = engine.load(importing(157)).await.err().unwrap().to_string();
    assert!(refused.contains("longer than 256 bytes"), "{refused}");
    let owner = DriverName::parse("one").unwrap();
    drop(loaded);
    engine.retain_compiled(&owner, &[]).await;
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 0);
}

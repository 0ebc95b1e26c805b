//! Admission of real components, which `cargo xtask plugins` built: what may serve, and what each rule refuses.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a crate of tests: their helpers may panic as well"
)]

#[allow(dead_code, reason = "this file asks less of it than others do")]
#[path = "../../engine/tests/guest/memory.rs"]
mod memory;

use async_trait::async_trait;
use memory::Memory;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{Backend, BackendError};
use wasmount_core::capabilities::Hidden;
use wasmount_core::document::{Grants, Limits, Wasi};
use wasmount_core::names::DriverName;
use wasmount_core::services::Service;
use wasmount_engine::{
    BackendParts, Compile, Engine, EngineError, EngineOptions, NodeFacts, Target,
};
use wasmount_versions::{AdmissionReport, Admitted, Proof, Refusal, Step, run_admission};

/// A component without imports or exports.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// One engine for all tests; its cache makes each component compile once.
fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<(Arc<Engine>, tempfile::TempDir)> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().unwrap();
        let cache = Some(folder.path().join("cache"));
        let options = EngineOptions::for_backends(cache, [&Limits::default()]);
        (Engine::new(options).unwrap(), folder)
    };
    &ENGINE.get_or_init(make).0
}

fn built(plugin: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../plugins/target/wasm32-wasip2/release")
        .join(format!("{plugin}.wasm"));
    assert!(
        path.exists(),
        "{}: run `cargo xtask plugins` first",
        path.display()
    );
    path
}

async fn admit_file(path: &Path, behaviour: &str) -> (Result<Admitted, Refusal>, Arc<Memory>) {
    let wasm = std::fs::read(path).unwrap();
    let mut report = AdmissionReport::default();
    admit(engine(), wasm, behaviour, &mut report).await
}

async fn admit(
    engine: &Arc<Engine>,
    wasm: Vec<u8>,
    behaviour: &str,
    report: &mut AdmissionReport,
) -> (Result<Admitted, Refusal>, Arc<Memory>) {
    let memory = Arc::new(Memory::default());
    let behaviour = ("behaviour".to_owned(), behaviour.to_owned());
    let proof = Proof {
        wasi: Wasi::default(),
        grants: &Grants::default(),
        parts: BackendParts {
            driver: DriverName::parse("test.wasmount.io").unwrap(),
            limits: Limits::default(),
            settings: Attributes::from_iter([behaviour]),
            secrets: Arc::default(),
            held_secrets: Default::default(),
            sealing: None,
            network: Default::default(),
            granted_facts: Default::default(),
            granted_of_nodes: Default::default(),
            node_facts: NodeFacts::given(Default::default()),
            node_name: None,
            state: memory.clone(),
            mounter: memory.clone(),
        },
        hidden: &Hidden::default(),
        kept: None,
        admitted_before: false,
    };
    let admitted = run_admission(engine, wasm, proof, report).await;
    (admitted, memory)
}

async fn misbehave(behaviour: &str) -> Result<Admitted, Refusal> {
    admit_file(&built("misbehave"), behaviour).await.0
}

fn refused(admitted: Result<Admitted, Refusal>) -> Refusal {
    admitted.err().expect("a refusal")
}

#[tokio::test]
async fn a_valid_plugin_is_admitted_and_changes_nothing() {
    let (admitted, memory) = admit_file(&built("directory"), "").await;
    let Admitted {
        backend,
        warnings,
        ungranted,
        ..
    } = admitted.unwrap();
    let label = backend.label();
    assert_eq!(label.name, "directory.wasmount.io");
    assert!(label.digest.starts_with("sha256:"), "{label}");
    assert!(backend.offer().has(Service::NodeStage));
    assert!(!backend.offer().has(Service::Snapshots));
    let lines = "spec: {grants: {pools: {NAME: {path: DIRECTORY}}}}";
    assert!(
        warnings.len() == 1 && warnings[0].contains(lines),
        "{warnings:?}"
    );
    assert_eq!(ungranted, warnings);
    assert_eq!(memory.events(), [""; 0]);
}

#[tokio::test]
async fn doubts_are_warnings() {
    for (behaviour, expected) in [
        ("doubtful-settings", "`endpoint` has no TLS"),
        ("not-ready", "the plugin reports that it is not ready yet"),
        (
            "unwell",
            "the plugin reports that it is not ready yet: the storage system is away",
        ),
    ] {
        let warnings = misbehave(behaviour).await.unwrap().warnings;
        assert!(warnings.contains(&expected.to_owned()), "{warnings:?}");
    }
}

#[tokio::test]
async fn an_experimental_feature_is_admitted() {
    let admitted = misbehave("experimental-feature").await.unwrap();
    assert_eq!(admitted.backend.offer().features().count(), 0);
}

#[tokio::test]
async fn unknown_or_contradicting_features_are_rejected() {
    for (behaviour, expected) in [
        (
            "unknown-feature",
            "has the unknown feature `clone-volumes`, did you mean `clone-volume`?; correct it, or use a newer host",
        ),
        (
            "contradicting-feature",
            "contradicts itself: node-only-expansion contradicts the interface `controller-expand`; this is a fault of the plugin",
        ),
    ] {
        let refusal = refused(misbehave(behaviour).await).to_string();
        let (plugin, reason) = refusal.split_once(") ").unwrap();
        assert_eq!(reason, expected);
        assert!(
            plugin.starts_with("plugin misbehave.wasmount.io 0.1.0 (sha256:"),
            "{refusal}"
        );
    }
}

#[tokio::test]
async fn a_plugin_that_cannot_say_who_it_is_is_refused() {
    for behaviour in ["bad-name", "no-version"] {
        let refusal = refused(misbehave(behaviour).await);
        assert!(
            matches!(&refusal, Refusal::Identity(BackendError::BadAnswer { .. })),
            "{refusal}"
        );
    }
    let refusal = refused(misbehave("trap-at-admission").await).to_string();
    assert!(refusal.contains("no mood to be admitted"), "{refusal}");
    assert!(refusal.contains("sha256:"), "{refusal}");
}

#[tokio::test]
async fn settings_that_the_plugin_does_not_accept_are_refused() {
    assert_eq!(
        refused(misbehave("bad-settings").await).to_string(),
        "the plugin does not accept its settings: `endpoint` is missing; correct `settings`, `secrets` or `grants` of the backend document"
    );
}

#[tokio::test]
async fn a_component_that_is_no_plugin_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.wasm");
    std::fs::write(&path, EMPTY_COMPONENT).unwrap();
    let refusal = refused(admit_file(&path, "").await.0);
    assert!(
        matches!(refusal, Refusal::Engine(EngineError::NoIdentity)),
        "{refusal}"
    );
}

#[tokio::test]
async fn compiled_code_from_outside_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.cwasm");
    // wasmtime's compiled code is an ELF object.
    std::fs::write(&path, b"\x7fELF\x02\x01\x01\0").unwrap();
    let refusal = refused(admit_file(&path, "").await.0);
    assert!(matches!(refusal, Refusal::NotWasm), "{refusal}");
}

/// A compiler that compiles nothing, and says that it was asked.
#[derive(Debug)]
struct NoCompiler;

#[async_trait]
impl Compile for NoCompiler {
    async fn compile(&self, _target: Target, _wasm: &[u8]) -> Result<Vec<u8>, EngineError> {
        Err(EngineError::NotCompiled("it was asked".to_owned()))
    }
}

/// plugins/misbehave, with another version of the contract in all of its names.
fn of_version(version: &str) -> Vec<u8> {
    let mut wasm = std::fs::read(built("misbehave")).unwrap();
    let package = b"wasmount:csi/";
    let ours = b"@0.1.0";
    let mut changed = 0;
    for at in 0..wasm.len() {
        let name = &wasm[at..];
        if !name.starts_with(package) {
            continue;
        }
        let end = name.iter().take(64).position(|byte| *byte == b'@');
        let Some(end) = end.filter(|end| name[*end..].starts_with(ours)) else {
            continue;
        };
        let place = at + end + 1..at + end + ours.len();
        wasm[place].copy_from_slice(version.as_bytes());
        changed += 1;
    }
    assert!(changed > 10, "{changed}");
    wasm
}

#[tokio::test]
async fn another_version_of_the_contract_is_never_compiled() {
    let options = EngineOptions {
        compiler: Arc::new(NoCompiler),
        ..EngineOptions::for_backends(None, [&Limits::default()])
    };
    let engine = Engine::new(options).unwrap();
    for (version, last_step, words) in [
        ("0.2.0", Step::ApiLine, "version 0.2.0 of the contract"),
        ("0.0.9", Step::ApiLine, "version 0.0.9 of the contract"),
        ("0.1.0", Step::Compile, "it was asked"),
        ("0.1.9", Step::Compile, "it was asked"),
    ] {
        let mut report = AdmissionReport::default();
        let admitted = admit(&engine, of_version(version), "", &mut report).await;
        let refusal = refused(admitted.0).to_string();
        assert!(refusal.contains(words), "{refusal}");
        let last = report.steps().last().unwrap();
        assert_eq!((last.step, last.outcome.is_err()), (last_step, true));
    }
}

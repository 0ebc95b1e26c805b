//! A plugin that imports files and sockets: rejected with a message that names the key that allows them; once allowed, each use of them fails and has
//! no effect.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a crate of tests: their helpers may panic as well"
)]

#[allow(dead_code, reason = "this file asks less of it than others do")]
#[path = "../../engine/tests/guest/memory.rs"]
mod memory;

use memory::Memory;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{Backend, BackendError, CreateVolume};
use wasmount_core::call::Call;
use wasmount_core::capabilities::Hidden;
use wasmount_core::code::Code;
use wasmount_core::document::{Grants, Limits, Wasi};
use wasmount_core::names::{DriverName, RequestedName};
use wasmount_core::rpc::Rpc;
use wasmount_core::volume::{AccessMode, AccessType, CapacityRange, MountAccess, VolumeCapability};
use wasmount_engine::{BackendParts, Engine, EngineOptions, NodeFacts, WasmBackend};
use wasmount_versions::{AdmissionReport, Proof, Refusal, run_admission};

/// Long enough for a slow machine; no test waits for it.
const BUDGET: Duration = Duration::from_secs(60);

async fn admitted(wasi: Wasi) -> Result<Arc<WasmBackend>, Refusal> {
    let memory = Arc::new(Memory::default());
    let proof = Proof {
        wasi,
        grants: &Grants::default(),
        parts: BackendParts {
            driver: DriverName::parse("insistent.wasmount.io").unwrap(),
            limits: Limits::default(),
            settings: Attributes::default(),
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
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../plugins/target/wasm32-wasip2/release/insistent.wasm");
    let wasm = std::fs::read(path).unwrap();
    let options = EngineOptions::for_backends(None, [&Limits::default()]);
    let engine = Engine::new(options).unwrap();
    let mut report = AdmissionReport::default();
    let admitted = run_admission(&engine, wasm, proof, &mut report).await;
    admitted.map(|admitted| admitted.backend)
}

/// The error of the plugin's attempt; `None`: it succeeded.
async fn refusal(backend: &WasmBackend, attempt: &str, at: &str) -> Option<String> {
    match tried(backend, attempt, at).await {
        Ok(_) => None,
        Err(BackendError::Answered { code, message, .. }) => {
            assert_eq!(code, Code::PermissionDenied, "{attempt} {at}: {message}");
            Some(message)
        }
        Err(error) => panic!("{attempt} {at}: {error}"),
    }
}

async fn tried(
    backend: &WasmBackend,
    attempt: &str,
    at: &str,
) -> Result<Option<String>, BackendError> {
    let call = Call::within(Rpc::CreateVolume, "request-1", BUDGET);
    let parameters = [("try", attempt), ("at", at)];
    let args = CreateVolume {
        name: RequestedName::parse("name", "volume-1").unwrap(),
        capacity: CapacityRange::new(None, None).unwrap(),
        capabilities: vec![VolumeCapability {
            access_type: AccessType::Mount(MountAccess::default()),
            access_mode: AccessMode::SingleNodeWriter,
        }],
        parameters: parameters
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect(),
        mutable_parameters: Attributes::default(),
        content_source: None,
        accessibility: None,
    };
    let volume = backend.create_volume(&call, args).await?;
    Ok(volume.context.get("words").map(str::to_owned))
}

#[tokio::test]
async fn without_the_key_it_is_refused_with_its_imports_and_the_key() {
    let refusal = admitted(Wasi::Minimal).await.err().unwrap();
    let Refusal::UnknownImports { imports, hint } = refusal else {
        panic!("{refusal}")
    };
    for interface in ["wasi:filesystem/types@0.2", "wasi:sockets/tcp@0.2"] {
        assert!(imports.contains(interface), "{interface}: {imports}");
    }
    assert!(hint.contains("set spec.plugin.wasi to `full`"), "{hint}");
}

#[tokio::test]
async fn with_the_key_it_works_and_sees_nothing_of_the_host() {
    let backend = admitted(Wasi::Full).await.unwrap();
    tried(&backend, "nothing", "").await.unwrap();
    let words = tried(&backend, "look-around", "").await.unwrap();
    assert_eq!(words.as_deref(), Some("0 variables, 0 arguments"));
}

#[tokio::test]
async fn with_the_key_files_are_neither_opened_nor_made_nor_listed() {
    let backend = admitted(Wasi::Full).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::write(&there, "kept").unwrap();
    let new = folder.path().join("new");
    for (attempt, path) in [
        ("open", there.as_path()),
        ("open", Path::new("/etc/passwd")),
        ("open", Path::new("there")),
        ("write", &there),
        ("write", &new),
        ("write", Path::new("new")),
        ("list", folder.path()),
        ("list", Path::new("/")),
        ("list", Path::new(".")),
    ] {
        let refused = refusal(&backend, attempt, path.to_str().unwrap()).await;
        assert!(refused.is_some(), "{attempt} {} succeeded", path.display());
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "kept");
    assert!(!new.exists() && !Path::new("new").exists());
}

#[tokio::test]
async fn with_the_key_nothing_is_connected_sent_heard_or_resolved() {
    let backend = admitted(Wasi::Full).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_nonblocking(true).unwrap();
    let (tcp, udp) = (
        listener.local_addr().unwrap().to_string(),
        receiver.local_addr().unwrap().to_string(),
    );
    for (attempt, address) in [
        ("connect", tcp.as_str()),
        ("connect", "[::1]:1"),
        ("listen", "127.0.0.1:0"),
        ("listen", "[::1]:0"),
        ("send", &udp),
        ("resolve", "localhost:80"),
    ] {
        let refused = refusal(&backend, attempt, address).await;
        assert!(refused.is_some(), "{attempt} {address} succeeded");
    }
    let waiting = listener.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(waiting, Err(io::ErrorKind::WouldBlock));
    let received = receiver.recv(&mut [0]).map_err(|error| error.kind());
    assert_eq!(received, Err(io::ErrorKind::WouldBlock));
}

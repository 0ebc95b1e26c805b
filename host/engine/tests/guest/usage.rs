//! The reported usage of a call, on success and on failure.

use crate::harness::{attributes, call, create_volume, mounted, parts, volume_id, wasm};
use crate::memory::Memory;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wasmount_core::backend::{Backend, NodeStage};
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_engine::{Engine, EngineOptions, Usage};

const BUDGET: Duration = Duration::from_secs(60);

#[tokio::test]
async fn each_call_is_reported_once_with_its_usage() {
    let limits = Limits {
        cpu: Duration::from_millis(50),
        ..Limits::default()
    };
    let engine = Engine::new(EngineOptions::for_backends(None, [&limits])).unwrap();
    let component = engine.load(wasm("misbehave")).await.unwrap();
    let parts = parts(&Arc::new(Memory::default()), limits, Secrets::default());
    let asked = call(Rpc::GetPluginInfo, BUDGET);
    let candidate = component.prepare(parts, &asked).await.unwrap();
    let info = candidate.plugin_info(&asked).await.unwrap();
    let backend = candidate.into_backend(info, []);

    let usages: Arc<Mutex<Vec<Usage>>> = Arc::default();
    let told = Arc::clone(&usages);
    assert!(engine.set_usage_observer(move |usage| told.lock().unwrap().push(usage)));
    assert!(!engine.set_usage_observer(|_| {}), "there is one already");

    let args = NodeStage {
        id: volume_id("volume-1"),
        capability: mounted(),
        publish_context: attributes(&[]),
        volume_context: attributes(&[]),
    };
    let stage = call(Rpc::NodeStageVolume, BUDGET);
    backend.node_stage(&stage, args).await.unwrap();
    for behaviour in ["spin", "trap"] {
        let create = call(Rpc::CreateVolume, BUDGET);
        let created = backend.create_volume(&create, create_volume(behaviour));
        assert!(created.await.is_err());
    }

    let usages = usages.lock().unwrap();
    let names: Vec<_> = usages.iter().map(|usage| usage.function).collect();
    assert_eq!(names, ["node-stage", "create-volume", "create-volume"]);
    // The settings, which determine the behaviour of every call; then the pool, its type of file system, its options and a note.
    let calls: Vec<_> = usages.iter().map(|usage| usage.host_calls).collect();
    assert_eq!(calls, [5, 1, 1]);
    let [_, spun, _] = usages.as_slice() else {
        panic!("{usages:?}");
    };
    assert!(
        spun.cpu >= Duration::from_millis(50) && spun.wall >= spun.cpu,
        "{spun:?}"
    );
    assert!(usages.iter().all(|usage| usage.memory_bytes >= 64 << 10));
}

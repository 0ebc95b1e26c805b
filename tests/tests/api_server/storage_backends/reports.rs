//! What a real host writes of an object: the report of the node, and what the status makes of it when a version is refused or fails.

use crate::server::workspace;
use crate::storage_backends::scene::{Scene, condition, says};
use crate::storage_backends::serving::{Serving, object, served};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tonic::Code;
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::orchestrator::{Orchestrator, code};
use wasmount_tests::requests;

/// Calls until a version that traps in each of them is taken back at the latest: three faults, and what comes meanwhile.
const CALLS: usize = 40;

/// A volume whose creation traps in the plugin that does every bad thing.
fn trapping(number: usize) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: [("behaviour".to_owned(), "trap".to_owned())].into(),
        ..requests::create(&format!("pvc-{number}"), 1 << 20)
    }
}

fn digest_of(plugin: &str) -> String {
    let bytes = std::fs::read(workspace().component(plugin)).unwrap();
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Calls until the host says that it went back.
async fn traps(scene: &Scene, orchestrator: &Orchestrator, backend: &str) {
    let api = scene.backends();
    for number in 0..CALLS {
        let created = orchestrator.create(trapping(number)).await;
        assert_eq!(code(&created), Code::Internal, "{created:?}");
        let now = serde_json::to_value(api.get(backend).await.unwrap()).unwrap();
        if says(&now, "RolledBack", "True", "PluginFaults") {
            return;
        }
    }
}

fn message(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().unwrap();
    let found = all.iter().find(|it| it["type"] == kind).unwrap();
    found["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_reports_what_it_serves_and_what_it_refuses() {
    let scene = Scene::shared().await;
    let _serving = Serving::start(&scene, "reported");
    let mut wanted = object("reported", "reported.example");
    scene.apply(&wanted).await;
    let serves = |it: &Value| it["phase"] == "Serving";
    let mut report = scene.report("reported", "a report", serves).await;
    let seen = report.as_object_mut().unwrap().remove("seen").unwrap();
    assert!(seen.as_str().unwrap().starts_with("20"), "{seen}");
    let version = report["version"].clone();
    assert!(!version.as_str().unwrap().is_empty());
    let digest = digest_of("directory");
    let all = json!({
        "backend": "reported", "host": "reported", "onNode": true, "phase": "Serving",
        "observedGeneration": 1, "version": version, "digest": digest, "volumes": 0,
        "shortDigest": digest["sha256:".len()..][..12],
    });
    assert_eq!(report, all);

    wanted["spec"]["plugin"]["digest"] = json!(format!("sha256:{}", "0".repeat(64)));
    scene.apply(&wanted).await;
    let refuses = |it: &Value| it["phase"] == "Refused";
    let report = scene.report("reported", "a refusal", refuses).await;
    assert_eq!(report["observedGeneration"], 2);
    assert_eq!(report["digest"], json!(digest));
    let reason = report["reason"].as_str().unwrap();
    assert!(
        reason.contains(&digest) && reason.contains("correct plugin.digest"),
        "{reason}"
    );
    let degraded = scene.until("reported", "what it refuses", |it| {
        says(it, "Degraded", "True", "Refused") && says(it, "Progressing", "False", "Converged")
    });
    let words = message(&degraded.await, "Degraded");
    assert_eq!(words, format!("1 of 1 hosts: reported: {reason}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_rollback_is_reported_also_after_restart() {
    let scene = Scene::shared().await;
    let mut serving = Serving::start(&scene, "trapping");
    let mut wanted = object("trapping", "trapping.example");
    wanted["spec"]["plugin"]["path"] = json!(workspace().component("misbehave"));
    wanted["spec"]["versions"] = json!({ "rollback": { "faults": 3, "window": "30s" } });
    scene.apply(&wanted).await;
    let first = served(&scene, "trapping").await;
    wanted["spec"]["limits"] = json!({ "time": "50s" });
    scene.apply(&wanted).await;
    served(&scene, "trapping").await;

    let orchestrator = serving.orchestrator("trapping.example").await;
    traps(&scene, &orchestrator, "trapping").await;
    let back = |it: &Value| says(it, "RolledBack", "True", "PluginFaults");
    let object = scene.until("trapping", "a roll back", back).await;
    let words = message(&object, "RolledBack");
    for part in ["1 of 1 hosts: trapping: ", "3 faults", "trapped"] {
        assert!(words.contains(part), "{words}");
    }
    assert!(says(&object, "Ready", "True", "Serving"));
    assert!(says(&object, "Degraded", "True", "RolledBack"));
    assert_eq!(object["status"]["digest"], first["status"]["digest"]);
    let is_back = |it: &Value| it["phase"] == "RolledBack";
    let report = scene.report("trapping", "a roll back", is_back).await;
    assert_eq!(report["rolledBackBy"], "PluginFaults");
    assert_eq!(report["observedGeneration"], 2);

    serving.host.kill_9().unwrap();
    // Another generation of the same version: what is said of it was said after the restart.
    wanted["spec"]["versions"]["keep"] = json!(3);
    scene.apply(&wanted).await;
    serving.host.restart().unwrap();
    let again = scene.until("trapping", "the same after a restart", |it| {
        back(it)
            && says(it, "Progressing", "False", "Converged")
            && it["status"]["observedGeneration"] == 3
    });
    assert_eq!(message(&again.await, "RolledBack"), words);
    let report = scene.report("trapping", "the report", is_back).await;
    assert_eq!(report["observedGeneration"], 3);
    let ready = scene.backends().get("trapping").await.unwrap();
    let ready = condition(&serde_json::to_value(ready).unwrap(), "Ready");
    assert_eq!(ready, Some(("True".to_owned(), "Serving".to_owned())));
}

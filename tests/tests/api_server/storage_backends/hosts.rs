//! The real host and a real API server: an object is served, changed, refused, taken away and remembered.

use crate::storage_backends::scene::{Scene, says, soon};
use crate::storage_backends::serving::{OF_FILE, Serving, object, served};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use wasmount_control::messages::Rollback;
use wasmount_tests::idle::until_it_rests;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_an_object_is_served_changed_rejected_and_removed() {
    let scene = Scene::shared().await;
    let mut serving = Serving::start(&scene, "life");
    let mut wanted = object("life", "life.example");
    scene.apply(&wanted).await;
    let first = served(&scene, "life").await;
    let orchestrator = serving.orchestrator("life.example").await;
    let volume = orchestrator.created("v").await.unwrap();

    // A version that is not right is told, and changes nothing.
    let right = wanted["spec"]["plugin"]["path"].clone();
    wanted["spec"]["plugin"]["digest"] = json!(format!("sha256:{}", "0".repeat(64)));
    scene.apply(&wanted).await;
    let refused = scene
        .until("life", "a refusal", |it| {
            says(it, "Degraded", "True", "Refused")
        })
        .await;
    assert!(says(&refused, "Ready", "True", "Serving"));
    assert_eq!(refused["status"]["digest"], first["status"]["digest"]);
    orchestrator.is_known(&volume.id).await.unwrap();

    // A right one is served, by the same connection.
    wanted["spec"]["plugin"] = json!({ "path": right });
    wanted["spec"]["limits"] = json!({ "time": "50s" });
    scene.apply(&wanted).await;
    let again = served(&scene, "life").await;
    assert!(says(&again, "Degraded", "False", "NoTrouble"));
    orchestrator.is_known(&volume.id).await.unwrap();
    orchestrator.delete(&volume.id).await.unwrap();

    scene.delete("life").await;
    scene.until_gone("life").await;
    serving.until_no_socket("life.example").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_an_object_of_another_version_lifts_a_rollback() {
    let scene = Scene::shared().await;
    let serving = Serving::start(&scene, "lifted");
    let mut wanted = object("lifted", "lifted.example");
    let admin = wasmount_control::Client::new(serving.host.data().join("admin.sock"));
    let number = async || {
        let status = admin.status().await.unwrap();
        let mut drivers = status.drivers.into_iter();
        let driver = drivers.find(|it| it.driver == "lifted.example").unwrap();
        driver.status.version.unwrap().number
    };
    scene.apply(&wanted).await;
    served(&scene, "lifted").await;
    wanted["spec"]["limits"] = json!({ "time": "50s" });
    scene.apply(&wanted).await;
    served(&scene, "lifted").await;
    assert_eq!(number().await, 2);
    let back = admin.rollback("lifted.example", &Rollback::default()).await;
    assert_eq!(back.unwrap().version.unwrap().number, 1);
    // Another policy is no other version: what was taken back stays so.
    wanted["spec"]["versions"] = json!({ "keep": 3 });
    scene.apply(&wanted).await;
    scene
        .until("lifted", "a host that is rolled back", |it| {
            says(it, "Degraded", "True", "RolledBack")
                && it["metadata"]["generation"] == 3
                && says(it, "RolledBack", "True", "RolledBackByAdministrator")
                && it["status"]["observedGeneration"] == 3
        })
        .await;
    assert_eq!(number().await, 1);
    wanted["spec"]["limits"] = json!({ "time": "40s" });
    scene.apply(&wanted).await;
    let again = served(&scene, "lifted").await;
    assert!(says(&again, "Degraded", "False", "NoTrouble"));
    assert_eq!(number().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_the_driver_of_a_file_is_not_given_to_an_object() {
    let scene = Scene::shared().await;
    let mut serving = Serving::start(&scene, "taken");
    scene.apply(&object("taken", OF_FILE)).await;
    let told = scene
        .until("taken", "what stands in the way", |it| {
            says(it, "Ready", "False", "DriverTaken")
        })
        .await;
    let words = told["status"]["conditions"].to_string();
    assert!(words.contains("file.example"), "{words}");
    serving
        .orchestrator(OF_FILE)
        .await
        .has_plugin()
        .await
        .unwrap();
    // What never was served is not waited for.
    scene.delete("taken").await;
    scene.until_gone("taken").await;
    serving
        .orchestrator(OF_FILE)
        .await
        .has_plugin()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_start_without_api_server_serves_the_cache() {
    let scene = Scene::start().await;
    let mut serving = Serving::start(&scene, "alone");
    scene.apply(&object("alone", "alone.example")).await;
    served(&scene, "alone").await;
    let orchestrator = serving.orchestrator("alone.example").await;
    let volume = orchestrator.created("v").await.unwrap();
    // Nobody else changes what this API server has.
    until_it_rests(serving.host.id()).unwrap();
    scene.plane.stop_api();
    // Its loss stops nothing, and neither does a start without it.
    orchestrator.is_known(&volume.id).await.unwrap();
    serving.host.kill_9().unwrap();
    serving.host.restart().unwrap();
    let socket = serving.socket("alone.example");
    soon("the socket", async || {
        std::os::unix::net::UnixStream::connect(&socket)
            .ok()
            .map(drop)
    })
    .await;
    let orchestrator = serving.orchestrator("alone.example").await;
    orchestrator.is_known(&volume.id).await.unwrap();
    // It catches up when the API server is back.
    scene.plane.start_api().await.unwrap();
    let mut changed = object("alone", "alone.example");
    changed["spec"]["limits"] = json!({ "time": "50s" });
    scene.apply(&changed).await;
    scene
        .until("alone", "the newer generation", |it| {
            it["status"]["hosts"]["current"] == 1
                && it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && it["metadata"]["generation"] == 2
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_secret_is_awaited_read_and_never_logged() {
    let scene = Scene::shared().await;
    let mut serving = Serving::start(&scene, "secret");
    let mut wanted = object("secret", "secret.example");
    let source = json!({ "namespace": "default", "name": "secret-of-test", "key": "token" });
    wanted["spec"]["secrets"] = json!({ "token": { "secret": source } });
    scene.apply(&wanted).await;
    let waiting = scene
        .until("secret", "a secret that is missed", |it| {
            says(it, "Degraded", "True", "Waiting")
        })
        .await;
    let words = waiting["status"]["conditions"].to_string();
    assert!(words.contains("default/secret-of-test"), "{words}");
    create_secret(&scene.client, "hunter22").await;
    served(&scene, "secret").await;
    serving
        .orchestrator("secret.example")
        .await
        .has_plugin()
        .await
        .unwrap();
    assert!(!serving.host.log().contains("hunter22"));
    let kept = serving.host.data().join("storage-backends.json");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(kept.contains("secret-of-test") && !kept.contains("hunter22"));
}

async fn create_secret(client: &Client, value: &str) {
    let secret =
        json!({ "metadata": { "name": "secret-of-test" }, "stringData": { "token": value } });
    let secret = serde_json::from_value(secret).unwrap();
    let secrets = Api::<k8s_openapi::api::core::v1::Secret>::namespaced(client.clone(), "default");
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
}

//! Objects that go while volumes of them are in use, with the real host and a real API server: what they refuse until then, and that one that
//! comes back is as before.

use crate::storage_backends::scene::{FORCED, Scene, says, soon};
use crate::storage_backends::serving::{Serving, object, served};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tonic::{Code, Status};
use wasmount_tests::host::HostRole;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, Volume};
use wasmount_tests::requests;

/// What clients of an object that goes are told.
const LEAVING: &str = "the backend is being deleted";

/// A volume of no other use; again and again the same.
async fn create(orchestrator: &Orchestrator) -> Result<(), Status> {
    let request = requests::create("more", VOLUME_BYTES);
    orchestrator.create(request).await.map(drop)
}

/// Returns when neither a volume is made nor one that is there is staged, because the object goes. Until then its plugin may not be loaded.
async fn until_leaving(orchestrator: &Orchestrator, volume: &Volume) {
    soon("the refusal of new work", async || {
        let answers = [create(orchestrator).await, orchestrator.stage(volume).await];
        let refusals: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
        let codes: Vec<_> = refusals.iter().map(Status::code).collect();
        assert_eq!(codes, [Code::Unavailable; 2], "{refusals:?}");
        let is_leaving = |status: &Status| status.message().contains(LEAVING);
        refusals.iter().all(is_leaving).then_some(())
    })
    .await;
}

/// Returns when both is done again.
async fn until_working(orchestrator: &Orchestrator, volume: &Volume) {
    soon("new work", async || {
        create(orchestrator).await.ok()?;
        orchestrator.stage(volume).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_an_object_stays_until_its_last_volume_is_unstaged() {
    let scene = Scene::shared().await;
    let mut serving = Serving::start(&scene, "staged");
    scene.apply(&object("staged", "staged.example")).await;
    served(&scene, "staged").await;
    let orchestrator = serving.orchestrator("staged.example").await;
    let volume = orchestrator.created("v").await.unwrap();
    orchestrator.stage(&volume).await.unwrap();
    scene.delete("staged").await;
    let waits = |it: &Value| {
        says(it, "Progressing", "True", "Deleting")
            && it["status"]["conditions"]
                .to_string()
                .contains("1 volumes are staged, on staged")
    };
    scene.until("staged", "a deletion that waits", waits).await;
    until_leaving(&orchestrator, &volume).await;
    // The host is killed and started again; the volume can still be taken down, and then the object goes.
    serving.host.kill_9().unwrap();
    serving.host.restart().unwrap();
    let socket = serving.until_socket("staged.example").await;
    let kubelet = serving.host.kubelet();
    let orchestrator = Orchestrator::connect_at_once(&socket, &kubelet)
        .await
        .unwrap();
    until_leaving(&orchestrator, &volume).await;
    orchestrator.unstage(&volume).await.unwrap();
    scene.until_gone("staged").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_forced_deletion_removes_a_backend_in_use() {
    let scene = Scene::shared().await;
    let mut serving = Serving::start(&scene, "byforce");
    scene.apply(&object("byforce", "byforce.example")).await;
    served(&scene, "byforce").await;
    let orchestrator = serving.orchestrator("byforce.example").await;
    let volume = orchestrator.created("v").await.unwrap();
    orchestrator.stage(&volume).await.unwrap();
    let backends = scene.backends();
    let forced = json!({ "metadata": { "annotations": { FORCED: "true" } } });
    let parameters = PatchParams::default();
    backends
        .patch("byforce", &parameters, &Patch::Merge(&forced))
        .await
        .unwrap();
    scene.delete("byforce").await;
    scene.until_gone("byforce").await;
    serving.until_no_socket("byforce.example").await;
    assert!(
        !serving.host.abandon().unwrap().is_empty(),
        "the volume is still mounted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_an_object_recreated_while_leaving_takes_work() {
    let scene = Scene::shared().await;
    let mut serving = Serving::start(&scene, "back");
    let wanted = object("back", "back.example");
    scene.apply(&wanted).await;
    served(&scene, "back").await;
    let orchestrator = serving.orchestrator("back.example").await;
    let volume = orchestrator.created("v").await.unwrap();
    orchestrator.stage(&volume).await.unwrap();
    // Its label says no more that it is this host's, and then again.
    let mut other = wanted.clone();
    other["metadata"]["labels"] = json!({ "test": "elsewhere" });
    scene.apply(&other).await;
    soon("the refusal of new work", async || {
        create(&orchestrator).await.err()
    })
    .await;
    until_leaving(&orchestrator, &volume).await;
    scene.apply(&wanted).await;
    until_working(&orchestrator, &volume).await;
    served(&scene, "back").await;

    // It is deleted, its finalizer is removed by hand, and another object has its name.
    scene.delete("back").await;
    soon("the refusal of new work", async || {
        create(&orchestrator).await.err()
    })
    .await;
    until_leaving(&orchestrator, &volume).await;
    let free = json!({ "metadata": { "finalizers": null } });
    let (backends, parameters) = (scene.backends(), PatchParams::default());
    let patch = Patch::Merge(&free);
    backends.patch("back", &parameters, &patch).await.unwrap();
    scene.apply(&wanted).await;
    until_working(&orchestrator, &volume).await;
    served(&scene, "back").await;
    orchestrator.unstage(&volume).await.unwrap();
    scene.delete("back").await;
    scene.until_gone("back").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_recreated_object_of_a_leader_works_again() {
    let scene = Scene::shared().await;
    let elects = ["--state=kubernetes:default", "--leader-election"];
    let mut serving = Serving::start_as(&scene, "anew", HostRole::Controller, &elects);
    let wanted = object("anew", "anew.example");
    for _ in 0..2 {
        scene.apply(&wanted).await;
        let socket = serving.until_socket("anew.example").await;
        let kubelet = serving.host.kubelet();
        let orchestrator = Orchestrator::connect_at_once(&socket, &kubelet)
            .await
            .unwrap();
        soon("its turn", async || create(&orchestrator).await.ok()).await;
        scene.delete("anew").await;
        scene.until_gone("anew").await;
        serving.until_no_socket("anew.example").await;
    }
}

//! The CSIDriver object as a serving host keeps it, by the very rights that the manifests give it.

use crate::manifests::scene::{Scene, create_node, printed, soon, workspace};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::path::{Path, PathBuf};
use wasmount_tests::host::{Host, HostOptions, HostRole};
use xtask::cluster::access::User;

const DRIVER: &str = "hostpath.wasmount.io";
const ACCOUNT: &str = "wasmount-hostpath-node";

/// A controller needs no right on this machine; which object a driver wants does not depend on the role.
fn host(document: PathBuf, kubeconfig: &Path, more: &[&str]) -> Host {
    let mut arguments = vec!["--kubeconfig".into(), kubeconfig.into()];
    arguments.extend(more.iter().map(Into::into));
    Host::start(HostOptions {
        backends: vec![document],
        role: HostRole::Controller,
        more: arguments,
        ..HostOptions::default()
    })
    .unwrap()
}

async fn live(api: &Api<CSIDriver>) -> CSIDriver {
    soon("the CSIDriver object", async || {
        api.get_opt(DRIVER).await.unwrap()
    })
    .await
}

/// Rights, account, nodes: all that is printed but the object itself.
async fn prepared() -> (Scene, PathBuf, Api<CSIDriver>) {
    let scene = Scene::start().await;
    scene.with_snapshot_kinds();
    scene.with_shared_objects();
    let document = workspace().backend_document("hostpath");
    scene.apply(&printed(&document, &["--topology", "node-local"]).0);
    let api = Api::<CSIDriver>::all(scene.client.clone());
    api.delete(DRIVER, &DeleteParams::default()).await.unwrap();
    create_node(&scene.client, "a", DRIVER).await;
    let kubeconfig = scene.token_on(ACCOUNT, "a").await;
    (scene, kubeconfig, api)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_accepts_csi_driver_by_printed_rights() {
    let (_scene, kubeconfig, api) = prepared().await;
    let mut host = host(workspace().backend_document("hostpath"), &kubeconfig, &[]);
    host.client().await.unwrap();
    let first = live(&api).await;
    let spec = serde_json::to_value(&first.spec).unwrap();
    assert_eq!(spec["attachRequired"], true);
    assert_eq!(spec["podInfoOnMount"], true);
    assert_eq!(spec["storageCapacity"], true);
    assert_eq!(
        spec["volumeLifecycleModes"],
        json!(["Persistent", "Ephemeral"])
    );

    // Another manager's field is kept, and a host that finds the object right writes nothing.
    let other = json!({ "spec": { "requiresRepublish": true } });
    let params = PatchParams {
        field_manager: Some("somebody".to_owned()),
        ..PatchParams::default()
    };
    let changed = api
        .patch(DRIVER, &params, &Patch::Merge(other))
        .await
        .unwrap();
    host.kill_9().unwrap();
    host.restart().unwrap();
    host.client().await.unwrap();
    soon("the second look", async || {
        host.log()
            .matches("CSIDriver object up to date")
            .nth(1)
            .map(drop)
    })
    .await;
    let again = api.get(DRIVER).await.unwrap();
    assert_eq!(
        again.metadata.resource_version,
        changed.metadata.resource_version
    );
    assert_eq!(again.spec.requires_republish, Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_keeps_an_incompatible_csi_driver() {
    let (scene, kubeconfig, api) = prepared().await;
    scene.apply(&format!(
        "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {{ name: {DRIVER} }}\nspec: {{ attachRequired: false }}\n"
    ));
    let before = live(&api).await;
    let host = host(workspace().backend_document("hostpath"), &kubeconfig, &[]);
    let log = soon("the refusal", async || {
        Some(host.log()).filter(|log| log.contains("CSIDriver object not written"))
    })
    .await;
    assert!(
        log.contains("`attachRequired` is false, wanted true"),
        "{log}"
    );
    assert!(log.contains("kubectl delete csidriver"), "{log}");
    let after = api.get(DRIVER).await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(
        after.metadata.resource_version,
        before.metadata.resource_version
    );
    soon("the event", async || {
        let reasons = ["--output", "jsonpath={.items[*].reason}"];
        let events = scene.kubectl(&[
            "get",
            "events",
            "--namespace",
            "default",
            reasons[0],
            reasons[1],
        ]);
        let said = String::from_utf8_lossy(&events.stdout).into_owned();
        said.contains("CSIDriverNotApplied").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_real_api_server_gets_the_csi_driver() {
    let (scene, kubeconfig, api) = prepared().await;
    scene.plane.stop_api().unwrap();
    let late = host(workspace().backend_document("hostpath"), &kubeconfig, &[]);
    soon("the failure", async || {
        Some(()).filter(|()| late.log().contains("CSIDriver object not written"))
    })
    .await;
    scene.plane.start_api().await.unwrap();
    live(&api).await;
    drop(late);

    api.delete(DRIVER, &DeleteParams::default()).await.unwrap();
    let admin = scene.plane.kubeconfig(User::Admin);
    let off = host(
        workspace().backend_document("hostpath"),
        &admin,
        &["--csidriver", "off"],
    );
    off.client().await.unwrap();
    // The same host with the word left out writes it: it was the word.
    assert!(api.get_opt(DRIVER).await.unwrap().is_none());
    drop(off);
    let _on = host(workspace().backend_document("hostpath"), &admin, &[]);
    live(&api).await;
}

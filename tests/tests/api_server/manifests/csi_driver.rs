//! The CSIDriver object as a serving host keeps it, by the very rights that the manifests give it.

use crate::manifests::scene::{Scene, create_node, driver, printed, soon};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::path::{Path, PathBuf};
use wasmount_tests::host::{Host, HostOptions, HostRole};

/// A backend of a test, with all that is printed but the CSIDriver object itself.
struct Prepared {
    scene: Scene,
    document: PathBuf,
    driver: String,
    kubeconfig: PathBuf,
    api: Api<CSIDriver>,
}

/// A controller needs no right on this machine; which object a driver wants does not depend on the role.
fn host(document: &Path, kubeconfig: &Path, more: &[&str]) -> Host {
    let mut arguments = vec!["--kubeconfig".into(), kubeconfig.into()];
    arguments.extend(more.iter().map(Into::into));
    Host::start(HostOptions {
        backends: vec![document.to_owned()],
        role: HostRole::Controller,
        more: arguments,
        ..HostOptions::default()
    })
    .unwrap()
}

impl Prepared {
    async fn of(scene: Scene, name: &str) -> Self {
        let document = scene.hostpath_as(name);
        scene.apply(&printed(&document, &["--topology", "node-local"]).0);
        let (driver, node) = (driver(name), format!("{name}-a"));
        create_node(&scene.client, &node, &driver).await;
        let account = format!("wasmount-{name}-node");
        let prepared = Self {
            document,
            kubeconfig: scene.token_on(&account, &node).await,
            api: Api::all(scene.client.clone()),
            driver,
            scene,
        };
        prepared.delete().await;
        prepared
    }

    fn host(&self) -> Host {
        host(&self.document, &self.kubeconfig, &[])
    }

    /// The object, once it is there.
    async fn live(&self) -> CSIDriver {
        soon("the CSIDriver object", async || self.get().await).await
    }

    async fn get(&self) -> Option<CSIDriver> {
        self.api.get_opt(&self.driver).await.unwrap()
    }

    async fn delete(&self) {
        let parameters = DeleteParams::default();
        self.api.delete(&self.driver, &parameters).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_accepts_csi_driver_by_printed_rights() {
    let prepared = Prepared::of(Scene::shared().await, "accepted").await;
    let mut host = prepared.host();
    host.client().await.unwrap();
    let first = prepared.live().await;
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
    let (api, name) = (&prepared.api, &prepared.driver);
    let changed = api.patch(name, &params, &Patch::Merge(other)).await;
    let changed = changed.unwrap();
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
    let again = prepared.get().await.unwrap();
    assert_eq!(
        again.metadata.resource_version,
        changed.metadata.resource_version
    );
    assert_eq!(again.spec.requires_republish, Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_keeps_an_incompatible_csi_driver() {
    let prepared = Prepared::of(Scene::shared().await, "kept").await;
    let name = &prepared.driver;
    prepared.scene.apply(&format!(
        "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {{ name: {name} }}\nspec: {{ attachRequired: false }}\n"
    ));
    let before = prepared.live().await;
    let host = prepared.host();
    let log = soon("the refusal", async || {
        Some(host.log()).filter(|log| log.contains("CSIDriver object not written"))
    })
    .await;
    assert!(
        log.contains("`attachRequired` is false, wanted true"),
        "{log}"
    );
    assert!(log.contains("kubectl delete csidriver"), "{log}");
    let after = prepared.get().await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(
        after.metadata.resource_version,
        before.metadata.resource_version
    );
    soon("the event", async || {
        let events = prepared.scene.kubectl(&[
            "get",
            "events",
            "--namespace",
            "default",
            "--field-selector",
            &format!("involvedObject.kind=CSIDriver,involvedObject.name={name}"),
            "--output",
            "jsonpath={.items[*].reason}",
        ]);
        let said = String::from_utf8_lossy(&events.stdout).into_owned();
        said.contains("CSIDriverNotApplied").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_real_api_server_gets_the_csi_driver() {
    let scene = Scene::start().await;
    scene.add_shared_objects();
    let prepared = Prepared::of(scene, "late").await;
    prepared.scene.plane.stop_api();
    let late = prepared.host();
    soon("the failure", async || {
        Some(()).filter(|()| late.log().contains("CSIDriver object not written"))
    })
    .await;
    prepared.scene.plane.start_api().await.unwrap();
    prepared.live().await;
    drop(late);

    prepared.delete().await;
    let admin = prepared.scene.kubeconfig();
    let off = host(&prepared.document, &admin, &["--csidriver", "off"]);
    off.client().await.unwrap();
    // The same host with the word left out writes it: it was the word.
    assert!(prepared.get().await.is_none());
    drop(off);
    let _on = host(&prepared.document, &admin, &[]);
    prepared.live().await;
}

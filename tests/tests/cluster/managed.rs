//! `--csinode manage` beside the real kubelet: for a Node of its own the host writes what kubelet wrote for the same drivers on the real one, field
//! by field, names of the two nodes aside.

use crate::stage::Outcome;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};
use wasmount_tests::cluster::drivers::{self, MANAGED, MANAGING_HOST};
use wasmount_tests::cluster::listing::NODE_IDS;
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use xtask::cluster::access::NODE_NAME;
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// The Node without a kubelet.
const OTHER: &str = "other";

pub(crate) async fn privileged_the_host_writes_what_kubelet_wrote(scene: Scene) -> Outcome {
    let cluster = scene.lab().cluster();
    scene
        .apply(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": OTHER },
            // Nothing runs there.
            "spec": { "unschedulable": true },
        }))
        .await?;
    cluster.run(drivers::managing_host(
        &Workspace::locate()?,
        cluster,
        OTHER,
    )?)?;
    let compared = scene
        .wait("CSINode and Node are as kubelet's", async || {
            let ours = written(&scene, OTHER).await?;
            let kubelets = written(&scene, NODE_NAME).await?;
            if ours == kubelets {
                Ok(())
            } else {
                Err(NotYet(format!("ours: {ours:#}\nkubelet's: {kubelets:#}")))
            }
        })
        .await;
    cluster.stop(MANAGING_HOST)?;
    let nodes: Api<Node> = Api::all(scene.client());
    nodes
        .delete(OTHER, &DeleteParams::default())
        .await
        .map_err(Failure::cannot("delete the Node"))?;
    compared
}

/// What is written of the drivers in question in both objects of a node.
async fn written(scene: &Scene, name: &str) -> Result<Value, NotYet> {
    let node = Api::<Node>::all(scene.client()).get(name).await?;
    let csi_node = Api::<CSINode>::all(scene.client()).get(name).await?;
    let is_ours = |name: &str| MANAGED.iter().any(|it| it.name == name);
    let mut entries = csi_node.spec.drivers.clone();
    entries.retain(|it| is_ours(&it.name));
    entries.sort_by(|one, other| one.name.cmp(&other.name));

    let owners = csi_node.owner_references();
    let owned = owners
        .iter()
        .all(|it| it.name == name && Some(&it.uid) == node.uid().as_ref());
    let owners = owners.iter().map(|it| {
        json!([
            it.api_version,
            it.kind,
            it.controller,
            it.block_owner_deletion
        ])
    });
    let noted = node.annotations().get(NODE_IDS);
    let noted = noted.map_or("{}", |it| it.as_str());
    let mut ids: Map<String, Value> = serde_json::from_str(noted).unwrap();
    ids.retain(|name, _| is_ours(name));
    let keys = entries
        .iter()
        .flat_map(|it| it.topology_keys.iter().flatten());
    let labels: Map<_, _> = keys
        .map(|key| (key.clone(), json!(node.labels().get(key))))
        .collect();
    Ok(json!({
        "drivers": entries,
        "owners": owners.collect::<Vec<_>>(),
        "owned by its Node": owned,
        "annotations": csi_node.annotations(),
        "labels": csi_node.labels(),
        "finalizers": csi_node.finalizers(),
        "the Node's ids": ids,
        "the Node's labels": labels,
    }))
}

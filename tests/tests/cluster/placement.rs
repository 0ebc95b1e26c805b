//! Where volumes are made: on the node of the first pod, and only where there is room, by what the driver tells of its topology and capacity.

use crate::stage::Outcome;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use wasmount_tests::cluster::objects::{Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use xtask::cluster::access::NODE_NAME;
use xtask::failure::Failure;

/// The label by which hostpath's volumes have a node.
const LABEL: &str = "topology.hostpath.wasmount.io/node";

/// More than the pool has.
const TOO_LARGE: &str = "100Gi";

pub(crate) async fn privileged_a_volume_is_made_and_bound_where_its_first_pod_is(
    scene: Scene,
) -> Outcome {
    let claims: Api<PersistentVolumeClaim> = scene.api();
    scene.claim(&Claim::new("data", "ext4", "16Mi")).await?;
    scene
        .wait("the claim waits for a pod", async || {
            let events =
                wasmount_tests::cluster::wait::events(&scene.client(), scene.namespace()).await;
            if events.contains("WaitForFirstConsumer") {
                Ok(())
            } else {
                Err(NotYet(events))
            }
        })
        .await?;
    let waiting = claims
        .get("data")
        .await
        .map_err(Failure::cannot("get the claim"))?;
    assert_eq!(waiting.status.unwrap().phase.as_deref(), Some("Pending"));

    scene.pod("user", &[Volume::Claim("data")]).await?;
    let volume = scene.volume_of("data").await?;
    let affinity = volume.spec.unwrap().node_affinity.unwrap();
    assert_eq!(
        json!(affinity),
        json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": LABEL, "operator": "In", "values": [NODE_NAME] }
        ] }] } })
    );
    Ok(())
}

pub(crate) async fn privileged_a_pod_waits_when_its_claim_exceeds_the_capacity(
    scene: Scene,
) -> Outcome {
    let capacities: Api<CSIStorageCapacity> = Api::all(scene.client());
    let known = scene
        .wait("the capacity of the node is known", async || {
            let all = capacities.list(&ListParams::default()).await?.items;
            let of_class = all
                .iter()
                .find(|it| it.storage_class_name == "ext4")
                .cloned();
            of_class
                .filter(|it| it.capacity.is_some())
                .ok_or_else(|| NotYet(format!("{all:?}")))
        })
        .await?;
    assert_eq!(
        json!(known.node_topology),
        json!({ "matchLabels": { LABEL: NODE_NAME } })
    );

    scene.claim(&Claim::new("huge", "ext4", TOO_LARGE)).await?;
    scene
        .pod_with("user", &[Volume::Claim("huge")], &Value::Null)
        .await?;
    scene
        .unschedulable("user", "did not have enough free storage")
        .await?;
    let claims: Api<PersistentVolumeClaim> = scene.api();
    let claim = claims
        .get("huge")
        .await
        .map_err(Failure::cannot("get the claim"))?;
    assert_eq!(claim.spec.unwrap().volume_name, None);
    Ok(())
}

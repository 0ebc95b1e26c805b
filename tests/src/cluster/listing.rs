//! Compares what Kubernetes records about the drivers on the node with the drivers' own answers: CSINode, and the Node's annotation and labels.

use crate::cluster::drivers::Driver;
use crate::cluster::wait::NotYet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, VolumeNodeResources};
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet};
use wasmount_csi::wire::csi::v1::{NodeGetInfoRequest, NodeGetInfoResponse};
use xtask::clients::Clients;
use xtask::cluster::Cluster;
use xtask::cluster::access::NODE_NAME;

/// The annotation in which kubelet stores the node id of each driver (JSON).
pub const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";

/// Fails with the driver's record that does not match, and the driver's answer.
pub async fn is_true(client: &Client, cluster: &Cluster, drivers: &[Driver]) -> Result<(), NotYet> {
    let node = Api::<Node>::all(client.clone()).get(NODE_NAME).await?;
    let csi_node = Api::<CSINode>::all(client.clone()).get(NODE_NAME).await?;
    for driver in drivers {
        let said = said_by(driver, cluster).await?;
        let entries = &csi_node.spec.drivers;
        let entry = entries.iter().find(|it| it.name == driver.name);
        let told = entry_of(driver.name, &said);
        if entry != Some(&told) {
            let words = format!("CSINode says {entry:?}, the driver {told:?}");
            return Err(NotYet(words));
        }
        is_noted(&node, driver.name, &said)?;
    }
    Ok(())
}

/// The answer of a driver about the node, through its socket's path outside of the cluster.
async fn said_by(driver: &Driver, cluster: &Cluster) -> Result<NodeGetInfoResponse, NotYet> {
    let socket = driver.socket();
    let inside = socket.strip_prefix("/var/lib").unwrap_or(&socket);
    let mut node = Clients::connect(&cluster.lab().lib().join(inside))
        .await?
        .node;
    let said = node.node_get_info(NodeGetInfoRequest {}).await;
    let said = said.map_err(|status| NotYet(format!("{}: {status}", driver.name)))?;
    Ok(said.into_inner())
}

/// The entry as kubelet writes it: keys in order, and no limit if the driver returns none.
fn entry_of(name: &str, said: &NodeGetInfoResponse) -> CSINodeDriver {
    let keys: BTreeSet<_> = segments(said).map(|(key, _)| key.clone()).collect();
    let count = i32::try_from(said.max_volumes_per_node).ok();
    CSINodeDriver {
        name: name.to_owned(),
        node_id: said.node_id.clone(),
        topology_keys: (!keys.is_empty()).then(|| keys.into_iter().collect()),
        allocatable: count
            .filter(|it| *it > 0)
            .map(|count| VolumeNodeResources { count: Some(count) }),
    }
}

fn is_noted(node: &Node, name: &str, said: &NodeGetInfoResponse) -> Result<(), NotYet> {
    let ids = node.metadata.annotations.as_ref();
    let ids = ids.and_then(|it| it.get(NODE_IDS)).map_or("", |it| it);
    let noted: BTreeMap<String, String> = serde_json::from_str(ids).unwrap_or_default();
    if noted.get(name) != Some(&said.node_id) {
        return Err(NotYet(format!("the Node's annotation says {ids:?}")));
    }
    let labels = node.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|it| it.get(key));
    match segments(said).find(|(key, value)| label(key) != Some(*value)) {
        None => Ok(()),
        Some((key, _)) => Err(NotYet(format!("the Node's label {key}: {:?}", label(key)))),
    }
}

fn segments(said: &NodeGetInfoResponse) -> impl Iterator<Item = (&String, &String)> {
    said.accessible_topology.iter().flat_map(|it| &it.segments)
}

//! Registration's pre-flight, for each behaviour of the API server.

use super::super::watch::Observed;
use super::*;
use crate::tests::api_double::{Reply, api_double};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;
use wasmount_core::attributes::Attributes;
use wasmount_core::names::NodeId;
use wasmount_core::topology::Topology;

fn answer() -> NodeInfo {
    let pairs = [("zone".to_owned(), "a".to_owned())];
    NodeInfo {
        id: NodeId::parse("id", "n").unwrap(),
        max_volumes: None,
        topology: Some(Topology {
            segments: Attributes::from_pairs("topology", pairs).unwrap(),
        }),
    }
}

fn labelled(zone: &str) -> Observed<Node> {
    let node = json!({ "metadata": { "name": "w", "labels": { "zone": zone } } });
    Ok(Some(Arc::new(serde_json::from_value(node).unwrap())))
}

fn seen(node: Observed<Node>) -> Seen {
    Seen {
        node,
        csi_node: Ok(None),
    }
}

async fn clear(answers: watch::Receiver<Option<NodeInfo>>, seen: watch::Receiver<Seen>) {
    let (client, _) = api_double(|_| Reply::Never);
    let events = Events::new(Some(client), "w".to_owned());
    let driver = DriverName::parse("a.b").unwrap();
    clear_to_register(driver, answers, "w".to_owned(), seen, events).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_that_is_unknown_holds_a_registration_up() {
    let (_keep, answers) = watch::channel(Some(answer()));
    for node in [Err("silent".to_owned()), Ok(None), labelled("a")] {
        let (_keep, seen) = watch::channel(seen(node));
        clear(answers.clone(), seen).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_collision_blocks_registration_until_gone() {
    let (_keep, answers) = watch::channel(Some(answer()));
    let (labels, seen_labels) = watch::channel(seen(labelled("b")));
    let mut task = tokio::spawn(clear(answers, seen_labels));
    assert!(timeout(LONGEST_RENEWAL_PAUSE, &mut task).await.is_err());
    labels.send_replace(seen(labelled("a")));
    timeout(LONGEST_RENEWAL_PAUSE, task).await.unwrap().unwrap();
}

//! The labels of this host's Node, for steps that select by labels.

use crate::error::watch_failure;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeMap;

/// Labels by key.
pub(in crate::storage_backend) type Labels = BTreeMap<String, String>;

/// The labels, now and after each change; none of a host without a Node. It never ends: the library reconnects.
pub(in crate::storage_backend) fn own_labels(
    client: Client,
    node: &str,
) -> impl Stream<Item = Labels> + Send + use<> {
    let nodes = watch_object(Api::<Node>::all(client), node).default_backoff();
    let name = node.to_owned();
    let mut lost = false;
    nodes.filter_map(move |node| {
        let labels = match node {
            Ok(node) => {
                lost = false;
                Some(node.map_or_else(Labels::new, |node| node.labels().clone()))
            }
            Err(error) => {
                if !std::mem::replace(&mut lost, true) {
                    let reason = watch_failure(&error);
                    tracing::warn!(node = name, reason, "the labels of this node are not watched for now: steps of a rollout that select by labels wait");
                }
                None
            }
        };
        std::future::ready(labels)
    })
}

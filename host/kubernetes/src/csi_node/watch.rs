//! The host's own Node and CSINode, as they are now.

use crate::object_watch::watched;
use futures::stream::StreamExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::watch;

/// One object; none: there is no such object. The error says why that is not known.
pub(super) type Observed<K> = Result<Option<Arc<K>>, String>;

/// The objects of this node.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Node.
    pub node: Observed<Node>,
    /// CSINode.
    pub csi_node: Observed<CSINode>,
}

/// Watches both objects. The returned future does the work and is run as a task.
pub fn watch(
    client: Client,
    node_name: String,
) -> (watch::Receiver<Seen>, impl Future<Output = ()> + Send) {
    let silent = || "the API server has not answered yet".to_owned();
    let (sender, receiver) = watch::channel(Seen {
        node: Err(silent()),
        csi_node: Err(silent()),
    });
    let work = async move {
        let nodes = follow(client.clone(), &node_name, |node| {
            sender.send_modify(|seen| update(&mut seen.node, node));
        });
        let csi_nodes = follow(client, &node_name, |csi_node| {
            sender.send_modify(|seen| update(&mut seen.csi_node, csi_node));
        });
        futures::join!(nodes, csi_nodes);
    };
    (receiver, work)
}

/// After a watch breaks, the last observed object stays known.
fn update<K>(last: &mut Observed<K>, now: Observed<K>) {
    if now.is_ok() || last.is_err() {
        *last = now;
    }
}

/// Never returns.
async fn follow<K>(client: Client, name: &str, mut report: impl FnMut(Observed<K>))
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut objects = std::pin::pin!(watched(Api::<K>::all(client), name));
    while let Some(object) = objects.next().await {
        report(object.map(|object| object.map(Arc::new)));
    }
}

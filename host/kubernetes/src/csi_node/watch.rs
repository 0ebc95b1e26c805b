//! The host's own Node and CSINode, as they are now.

use crate::error::{causes, words};
use futures::stream::StreamExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::watch;

/// One object.
#[derive(Debug, Clone)]
pub enum Observed<K> {
    /// The API server has not answered yet; why.
    Unknown(String),
    /// There is no such object.
    Absent,
    /// The object.
    Present(Arc<K>),
}

/// The objects of this node.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Node.
    pub node: Observed<Node>,
    /// CSINode.
    pub csi_node: Observed<CSINode>,
}

impl<K> Observed<K> {
    /// The object, if there is one; or why that is not known.
    pub(super) fn known(&self) -> Result<Option<&K>, &str> {
        match self {
            Observed::Unknown(reason) => Err(reason),
            Observed::Absent => Ok(None),
            Observed::Present(object) => Ok(Some(object)),
        }
    }
}

/// Watches both objects. The returned future does the work and is run as a task.
pub fn watch(
    client: Client,
    node_name: String,
) -> (watch::Receiver<Seen>, impl Future<Output = ()> + Send) {
    let silent = || "the API server has not answered yet".to_owned();
    let (sender, receiver) = watch::channel(Seen {
        node: Observed::Unknown(silent()),
        csi_node: Observed::Unknown(silent()),
    });
    let work = async move {
        let nodes = follow::<Node>(client.clone(), &node_name, |node| {
            sender.send_modify(|seen| seen.node = node.or(&seen.node));
        });
        let csi_nodes = follow::<CSINode>(client, &node_name, |csi_node| {
            sender.send_modify(|seen| seen.csi_node = csi_node.or(&seen.csi_node));
        });
        futures::join!(nodes, csi_nodes);
    };
    (receiver, work)
}

impl<K> Observed<K> {
    /// After a watch breaks, the last observed object stays known.
    fn or(self, last: &Self) -> Self
    where
        K: Clone,
    {
        match (self, last) {
            (Observed::Unknown(_), Observed::Absent | Observed::Present(_)) => last.clone(),
            (observed, _) => observed,
        }
    }
}

/// Never returns: the library lists again after an expired version (410), and reconnects, with pauses of at most 30 s.
async fn follow<K>(client: Client, name: &str, mut report: impl FnMut(Observed<K>))
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let kind = K::kind(&());
    let objects = watch_object(Api::<K>::all(client), name).default_backoff();
    let mut objects = std::pin::pin!(objects);
    let mut lost = false;
    while let Some(object) = objects.next().await {
        let observed = match object {
            Ok(object) => {
                if std::mem::take(&mut lost) {
                    tracing::info!(%kind, name, "watch restored");
                }
                object.map_or(Observed::Absent, |it| Observed::Present(Arc::new(it)))
            }
            Err(error) => {
                let reason = reason(&error);
                if !std::mem::replace(&mut lost, true) {
                    tracing::warn!(%kind, name, reason, "not watched for now");
                }
                Observed::Unknown(format!("{kind} {name} cannot be watched: {reason}"))
            }
        };
        report(observed);
    }
}

fn reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => words(error),
        other => causes(other),
    }
}

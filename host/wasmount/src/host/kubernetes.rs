//! What a serving host does for Kubernetes, joined: registration, CSINode, CSIDriver, events.
//!
//! It holds no rule of Kubernetes; those are the room's (`wasmount_kubernetes`).

use crate::fault::chain;
use kube::Client;
use wasmount_kubernetes::{About, ApiAccess, Events, connect};

/// What the command line says of Kubernetes.
#[derive(Debug, Clone)]
pub(crate) struct KubernetesOptions {
    /// Name of the Node and CSINode objects.
    pub(crate) node_name: String,
    /// Whether kubelet is told of the drivers.
    pub(crate) registering: Registering,
    /// Who writes CSINode.
    pub(crate) csi_node: CsiNodeMode,
    /// Whether the CSIDriver objects are written.
    pub(crate) applies_csi_driver: bool,
    /// How the API server is reached.
    pub(crate) api: ApiAccess,
}

/// Whether kubelet is told of the drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registering {
    /// If it has a directory for that.
    WhereKubeletIs,
    /// Or else the host does not start.
    Always,
    /// Somebody else does, or nobody.
    Never,
}

/// Who writes CSINode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CsiNodeMode {
    /// kubelet; the host watches.
    Verify,
    /// The host.
    Manage,
    /// Nobody watches.
    Off,
}

/// The node in its cluster, as this host reaches it.
pub(super) struct Cluster {
    node_name: String,
    client: Option<Client>,
    events: Events,
}

impl Cluster {
    /// Without an API server there are no events; everything else goes on.
    pub(super) async fn reach(options: &KubernetesOptions) -> Self {
        let client = connect(&options.api).await.unwrap_or_else(|error| {
            let reason = chain(&error);
            tracing::error!(reason, "going on without the API server");
            None
        });
        let node_name = options.node_name.clone();
        Self {
            events: Events::new(client.clone(), node_name.clone()),
            client,
            node_name,
        }
    }

    /// What events about the node are about.
    pub(super) fn node(&self) -> About {
        About::Node {
            name: self.node_name.clone(),
        }
    }

    /// Name of the Node and CSINode objects.
    pub(super) fn node_name(&self) -> &str {
        &self.node_name
    }

    /// The API server; none: there is no cluster.
    pub(super) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// Writes events.
    pub(super) fn events(&self) -> &Events {
        &self.events
    }
}

//! The Kubernetes side of a serving host: its options, its client of the API server, and the events about its node.

use crate::fault::Fault;
use crate::readiness::Readiness;
use clap::ValueEnum;
use kube::Client;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use wasmount_core::text::chain;
use wasmount_kubernetes::{About, ApiAccess, Events, NodeTroubles, connect};

/// After this long a failed write is tried again, even if nothing has changed. 60 s: an API server that restarts is unavailable for less.
const RETRY: Duration = Duration::from_secs(60);

/// The options of the command line for Kubernetes.
#[derive(Debug, Clone)]
pub(crate) struct KubernetesOptions {
    /// Name of the Node and CSINode objects.
    pub(crate) node_name: String,
    /// Whether drivers are registered with kubelet.
    pub(crate) registration: RegistrationMode,
    /// Who writes CSINode.
    pub(crate) csi_node: CsiNodeMode,
    /// Whether the CSIDriver objects are written.
    pub(crate) applies_csi_driver: bool,
    /// How the API server is reached.
    pub(crate) api: ApiAccess,
}

/// Whether drivers are registered with kubelet, as the command line has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RegistrationMode {
    /// If the kubelet directory has `plugins_registry`
    Auto,
    /// Always: the host does not start without that directory
    On,
    /// Never: use node-driver-registrar if kubelet is to know the driver
    Off,
}

/// Who writes CSINode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CsiNodeMode {
    /// kubelet writes it; the host watches, reports drift and registers again
    Verify,
    /// The host writes it: for nodes without kubelet's plugin manager
    Manage,
    /// The host does not watch it
    Off,
}

/// The host's node in its cluster.
pub(super) struct Cluster {
    /// Name of the Node and CSINode objects.
    pub(super) node_name: String,
    /// The client of the API server; none: there is no cluster.
    pub(super) client: Option<Client>,
    /// The writer of events.
    pub(super) events: Events,
}

impl Cluster {
    /// Without an API server there are no events; everything else works. A kubeconfig that was named must be usable.
    pub(super) async fn reach(options: &KubernetesOptions) -> Result<Self, Fault> {
        let client = match connect(&options.api).await {
            Ok(client) => client,
            Err(error) => {
                if let ApiAccess::Kubeconfig(file) = &options.api {
                    let reason = error.source().map_or_else(|| chain(&error), chain);
                    return Err(Fault::flag("--kubeconfig", file.display(), reason));
                }
                let reason = chain(&error);
                tracing::error!(reason, "continuing without the API server");
                None
            }
        };
        let node_name = options.node_name.clone();
        Ok(Self {
            events: Events::new(client.clone(), node_name.clone()),
            client,
            node_name,
        })
    }

    /// The object of events about the node.
    pub(super) fn node(&self) -> About {
        About::node(&self.node_name)
    }
}

/// Writes events when the host has a problem, and when it is resolved. `wasmount_kubernetes` decides which and how often.
pub(super) async fn report_troubles(events: Events, node: String, readiness: Arc<Readiness>) {
    let mut changes = readiness.watch();
    let mut troubles = NodeTroubles::new(events, node);
    loop {
        let now = changes.borrow_and_update().troubles();
        troubles.now(&now).await;
        if let Ok(Err(_)) = timeout(RETRY, changes.changed()).await {
            return;
        }
    }
}

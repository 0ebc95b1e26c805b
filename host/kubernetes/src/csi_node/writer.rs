//! Writes Node and CSINode, where no kubelet does.
//!
//! Entries stay when the host stops, as they do when kubelet stops. At its next start the host removes entries that it created for drivers that it no
//! longer serves.

use super::facts::DriverFacts;
use super::install::{
    csi_node_without, made_by, new_csi_node, next_csi_node_patch, next_node_patch, node_without,
};
use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::guarded_patch::GuardedPatch;
use crate::request::{answered, create_as};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::PatchParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_core::names::DriverName;

/// Between the attempts of one write: kubelet's (`nodeinfomanager`, `updateBackoff`).
const PAUSES: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];
/// Most patches of one CSINode in a row: an entry is removed and added. A difference that remains was made on the way in (an admission webhook), and
/// the comparison reports it.
const PATCHES: usize = 2;
/// Between attempts to remove entries of drivers that are no longer served. 30 s: nothing waits for it.
const RETIRE_PAUSE: Duration = Duration::from_secs(30);
/// Hexadecimal digits of the data directory's digest in the name of the field manager: enough for the hosts of one node.
const IDENTITY_DIGITS: usize = 16;

/// Writes Node and CSINode.
pub struct Writer {
    nodes: Api<Node>,
    csi_nodes: Api<CSINode>,
    node_name: String,
    manager: String,
}

impl Writer {
    /// The data directory distinguishes the hosts of one node: its lock ensures that each has one host, and a host must not take another's entries
    /// for its own.
    pub fn new(client: Client, node_name: String, data_dir: &Path) -> Self {
        let mut identity = hex::encode(Sha256::digest(data_dir.as_os_str().as_bytes()));
        identity.truncate(IDENTITY_DIGITS);
        Self {
            nodes: Api::all(client.clone()),
            csi_nodes: Api::all(client),
            node_name,
            manager: format!("{FIELD_MANAGER}-{identity}"),
        }
    }

    /// Writes what the driver reports into Node and CSINode.
    pub(super) async fn install(&self, facts: &DriverFacts) -> Result<(), KubernetesError> {
        for pause in PAUSES {
            match self.try_install(facts).await {
                Err(error) if error.is_stale_write() => sleep(pause).await,
                ended => return ended,
            }
        }
        self.try_install(facts).await
    }

    async fn try_install(&self, facts: &DriverFacts) -> Result<(), KubernetesError> {
        let node = self.node().await?;
        if let Some(patch) = next_node_patch(facts, &node)? {
            self.patch_node(patch).await?;
        }
        let Some(mut csi_node) = self.csi_node().await? else {
            let (parameters, new) = (create_as(&self.manager), new_csi_node(facts, &node));
            let created = self.csi_nodes.create(&parameters, &new);
            let what = format!("create CSINode {}", self.node_name);
            return answered(what, created).await.map(drop);
        };
        for _ in 0..PATCHES {
            let Some(patch) = next_csi_node_patch(facts, &node, &csi_node) else {
                break;
            };
            csi_node = self.patch_csi_node(patch).await?;
        }
        Ok(())
    }

    /// Removes what this host created for drivers that are no longer served; tries until it succeeds.
    pub async fn retire_all_but(&self, served: &BTreeSet<DriverName>) {
        loop {
            match self.try_retire(served).await {
                Ok(gone) if gone.is_empty() => return,
                Ok(gone) => tracing::info!(?gone, "removed drivers without a backend from CSINode"),
                Err(error) => {
                    let reason = error.describe();
                    tracing::warn!(reason, "drivers without a backend remain in CSINode");
                    sleep(RETIRE_PAUSE).await;
                }
            }
        }
    }

    async fn try_retire(
        &self,
        served: &BTreeSet<DriverName>,
    ) -> Result<BTreeSet<String>, KubernetesError> {
        let Some(csi_node) = self.csi_node().await? else {
            return Ok(BTreeSet::new());
        };
        let mut gone = made_by(&csi_node, &self.manager);
        gone.retain(|name| !served.iter().any(|driver| driver.as_str() == name));
        let entries = csi_node_without(&csi_node, &gone);
        if let Some(entries) = entries {
            // First, while CSINode still shows which manager created the entries.
            if let Some(ids) = node_without(&self.node().await?, &gone) {
                self.patch_node(ids).await?;
            }
            self.patch_csi_node(entries).await?;
        }
        Ok(gone)
    }

    async fn node(&self) -> Result<Node, KubernetesError> {
        let what = format!("read Node {}", self.node_name);
        answered(what, self.nodes.get(&self.node_name)).await
    }

    async fn csi_node(&self) -> Result<Option<CSINode>, KubernetesError> {
        let what = format!("read CSINode {}", self.node_name);
        answered(what, self.csi_nodes.get_opt(&self.node_name)).await
    }

    /// Uses the `status` subresource, as kubelet does: the right to change a Node's status cannot make the Node unschedulable.
    async fn patch_node(&self, patch: GuardedPatch) -> Result<(), KubernetesError> {
        let (name, patch) = (&self.node_name, patch.into_patch());
        let parameters = PatchParams::apply(&self.manager);
        let patched = self.nodes.patch_status(name, &parameters, &patch);
        let what = format!("write the labels and annotations of Node {name}");
        answered(what, patched).await.map(drop)
    }

    async fn patch_csi_node(&self, patch: GuardedPatch) -> Result<CSINode, KubernetesError> {
        let (name, patch) = (&self.node_name, patch.into_patch());
        let parameters = PatchParams::apply(&self.manager);
        let patched = self.csi_nodes.patch(name, &parameters, &patch);
        answered(format!("write CSINode {name}"), patched).await
    }
}

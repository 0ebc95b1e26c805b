//! The host itself, by its flags: `--csinode verify` tells and never writes, and a host that may not look serves on.

use crate::csi_node::cluster::{Cluster, eventually};
use crate::csi_node::kubelet::{self, Answer};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;
use wasmount_csi::wire::csi::v1::NodeGetInfoRequest;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;
use wasmount_tests::{namespace, requests};

pub(crate) const DRIVER: &str = "hostpath.wasmount.io";

/// A host with plugins/hostpath, and documents beside it.
pub(crate) struct Serving {
    pub(crate) host: Host,
    pub(crate) folder: TempDir,
}

impl Serving {
    /// `others` are drivers of plugins/directory.
    pub(crate) fn start(cluster: &Cluster, mode: &str, kubeconfig: &Path, others: &[&str]) -> Self {
        needs_root();
        namespace::enter();
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().canonicalize().unwrap().join("pool");
        std::fs::create_dir(&pool).unwrap();
        let limit = [("maxVolumesPerNode", "100")];
        let mut backends =
            vec![documents::hostpath_with(folder.path(), &pool, &limit, &[]).unwrap()];
        for name in others {
            let own = documents::directory_of_its_own(folder.path(), name);
            backends.push(own.unwrap().0);
        }
        let kubeconfig = kubeconfig.to_str().unwrap();
        let flags = [
            "--csinode",
            mode,
            "--registration",
            "off",
            "--csidriver",
            "off",
        ];
        let more = [
            &flags[..],
            &["--node-name", &cluster.node, "--kubeconfig", kubeconfig],
        ];
        let host = Host::start(HostOptions {
            backends,
            more: more.concat().iter().map(Into::into).collect(),
            ..HostOptions::default()
        });
        let host = host.unwrap();
        Self { host, folder }
    }

    pub(crate) async fn logged(&self, words: &str) {
        eventually(words, async || self.host.log().contains(words)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_beside_kubelet_reports_and_writes_nothing() {
    let cluster = Cluster::with_node("beside", json!({})).await;
    let serving = Serving::start(&cluster, "verify", &cluster.kubeconfig, &[]);
    let mut node = serving.host.orchestrator().await.unwrap().clients().node;
    let said = node.node_get_info(NodeGetInfoRequest {}).await.unwrap();
    let said = said.into_inner();
    let answer = Answer {
        driver: DRIVER.to_owned(),
        node_id: said.node_id,
        topology: said
            .accessible_topology
            .unwrap()
            .segments
            .into_iter()
            .collect(),
        count: Some(100),
    };
    assert!(cluster.csi_node().await.is_none(), "it was written");
    kubelet::install(&cluster, &answer).await;
    serving.logged("CSINode and Node match the driver").await;

    kubelet::uninstall(&cluster, DRIVER).await;
    let words = "CSI driver hostpath.wasmount.io: CSINode does not list the driver";
    cluster.told("Warning", "CSINodeDrift", words).await;
    let object = cluster.csi_node().await.unwrap();
    assert_eq!(object.spec.drivers, [], "the host has not written it");
    kubelet::install(&cluster, &answer).await;
    cluster.told("Normal", "CSINodeListed", DRIVER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_without_rights_says_what_to_grant() {
    let cluster = Cluster::with_node("powerless", json!({})).await;
    let kubeconfig = cluster.kubeconfig_without_rights().await;
    let serving = Serving::start(&cluster, "verify", &kubeconfig, &[]);
    for kind in ["CSINode", "Node"] {
        let words = format!("not watched for now kind={kind}");
        serving.logged(&words).await;
    }
    serving
        .logged("grant it (`wasmount manifests` prints the RBAC rules)")
        .await;
    let orchestrator = serving.host.orchestrator().await.unwrap();
    let (id, _) = orchestrator
        .create(requests::create("pvc", 1 << 20))
        .await
        .unwrap();
    orchestrator.delete(&id).await.unwrap();
}

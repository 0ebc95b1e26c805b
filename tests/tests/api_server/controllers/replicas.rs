//! Two controllers with one set of records, a mounter and a node: as a Deployment of two replicas and a DaemonSet, each a process.

use crate::controllers::plane::Plane;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use wasmount_csi::wire::csi::v1::ProbeRequest;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::relay::Relay;
use wasmount_tests::root::needs_root;
use xtask::clients::Clients;

/// Until one must lead: the lease of a dead one runs 15 s. Generous: other tests share the machine.
const ELECTED: Duration = Duration::from_secs(120);

/// Between two questions.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// A node without any capability besides being root's, and a mounter that has the rights and the pool.
const ROOT: u32 = 0;

/// So that csi-sanity can reach the limit.
const SETTINGS: [(&str, &str); 1] = [("maxVolumesPerNode", "5")];

/// All of it, each controller with a way of its own to the API server.
pub(crate) struct Replicas {
    // Hosts end before the mounter of the node does.
    pub(crate) controllers: Vec<Host>,
    pub(crate) ways: Vec<Relay>,
    pub(crate) node: Host,
    /// Of each controller.
    documents: Vec<PathBuf>,
    folder: TempDir,
    plane: Plane,
}

impl Replicas {
    /// Starts two; `hidden` is what the test's csi-sanity does not know.
    pub(crate) async fn start(hidden: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("pool");
        let document = documents::hostpath_with(folder.path(), &pool, &SETTINGS, hidden).unwrap();
        Self::of(folder, [document.clone(), document]).await
    }

    /// Starts two, each with a document of its own for the same driver; the node has that of the first.
    pub(crate) async fn of(folder: TempDir, documents: [PathBuf; 2]) -> Self {
        needs_root();
        let plane = Plane::shared().await;
        let mut node = Host::start(HostOptions {
            backends: vec![documents[0].clone()],
            role: HostRole::Node,
            split: Some(ROOT),
            any_paths: true,
            ..HostOptions::default()
        })
        .unwrap();
        let mounter = node.mounting().unwrap().options.socket.clone();
        let mut replicas = Self {
            controllers: Vec::new(),
            ways: Vec::new(),
            node,
            documents: documents.to_vec(),
            folder,
            plane,
        };
        for (name, document) in ["a", "b"].into_iter().zip(documents) {
            let (way, kubeconfig) = replicas.plane.way(replicas.folder.path(), name).await;
            replicas.ways.push(way);
            let controller = Host::start(HostOptions {
                backends: vec![document],
                role: HostRole::Controller,
                mounter: Some(mounter.clone()),
                more: arguments(name, &replicas.plane.namespace, &kubeconfig),
                ..HostOptions::default()
            });
            replicas.controllers.push(controller.unwrap());
        }
        replicas
    }

    /// Which controller works, once one does. At no time do two.
    pub(crate) async fn leader(&self) -> usize {
        let start = Instant::now();
        loop {
            let mut ready = Vec::new();
            for (number, controller) in self.controllers.iter().enumerate() {
                if is_ready(controller.socket()).await {
                    ready.push(number);
                }
            }
            match ready.as_slice() {
                [] => {}
                [leader] => return *leader,
                several => panic!("several lead: {several:?}"),
            }
            assert!(start.elapsed() < ELECTED, "nobody leads: {}", self.logs());
            sleep(ASK_AGAIN).await;
        }
    }

    /// Returns when that controller works; the other is not asked.
    pub(crate) async fn works(&self, controller: usize) {
        let start = Instant::now();
        while !is_ready(self.controllers[controller].socket()).await {
            assert!(start.elapsed() < ELECTED, "nobody leads: {}", self.logs());
            sleep(ASK_AGAIN).await;
        }
    }

    /// Returns when that controller has met the lease of the other one.
    pub(crate) async fn stands_by(&self, controller: usize) {
        let start = Instant::now();
        while !self.controllers[controller].log().contains("standing by") {
            assert!(start.elapsed() < ELECTED, "it leads: {}", self.logs());
            sleep(ASK_AGAIN).await;
        }
    }

    /// Changes the document of both, as an administrator does who wants a deleted driver back.
    pub(crate) fn change_document(&self) {
        const CHANGE: &str = "  versions: { drain: 61s }\n";
        for document in &self.documents {
            let text = std::fs::read_to_string(document).unwrap();
            if !text.contains(CHANGE) {
                std::fs::write(document, text + CHANGE).unwrap();
            }
        }
    }

    fn logs(&self) -> String {
        self.controllers.iter().map(Host::log).collect()
    }
}

/// As the sidecars ask.
async fn is_ready(socket: &Path) -> bool {
    let Ok(clients) = Clients::connect(socket).await else {
        return false;
    };
    let mut identity = clients.identity;
    let probed = identity.probe(ProbeRequest {}).await;
    probed.is_ok_and(|answer| answer.into_inner().ready != Some(false))
}

fn arguments(name: &str, namespace: &str, kubeconfig: &Path) -> Vec<OsString> {
    let place = format!("kubernetes:{namespace}");
    let mut arguments: Vec<OsString> =
        ["--leader-election", "--state", &place, "--node-name", name]
            .map(OsString::from)
            .into();
    arguments.extend(["--kubeconfig".into(), kubeconfig.into()]);
    arguments
}

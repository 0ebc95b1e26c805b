//! A host with a plugin that misbehaves on demand, beside a real API server; what the host writes there, and what it counts.

use crate::server::{Server, workspace};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::sleep;
use tonic::Code;
use wasmount_csi::wire::csi::v1::{CreateVolumeRequest, NodePublishVolumeRequest};
use wasmount_tests::builds;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::{Orchestrator, code};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use xtask::cluster::access::NODE_NAME;

/// Value of the secret that the plugin is given.
pub(crate) const PASSWORD: &str = "tr0ub4dor.hunter22.correct-horse";
/// Where the claims and pods are.
pub(crate) const NAMESPACE: &str = "default";
/// Until an event must be there. Generous, since other tests share the machine.
const SEEN: Duration = Duration::from_secs(60);
/// Between two looks.
const AGAIN: Duration = Duration::from_millis(100);

/// The host and the API server. The fields are dropped in this order.
pub(crate) struct Scene {
    pub(crate) host: Host,
    pub(crate) orchestrator: Orchestrator,
    pub(crate) server: Arc<Server>,
    /// Of this scene alone, since others write events to the same API server.
    pub(crate) driver: String,
    health: SocketAddr,
    folder: TempDir,
}

impl Scene {
    /// With a driver of this name, and these lines more in the document's spec.
    pub(crate) async fn with(driver: &str, lines: &str) -> Self {
        Self::at(Server::shared().await, driver, lines).await
    }

    /// Beside an API server of its own, for a test that stops it.
    pub(crate) async fn beside(server: Server, driver: &str) -> Self {
        Self::at(Arc::new(server), driver, "").await
    }

    async fn at(server: Arc<Server>, driver: &str, lines: &str) -> Self {
        needs_root();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = server.kubeconfig().display().to_string();
        // Free a moment ago; should another take it meanwhile, the host ends and says so.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let health = free.local_addr().unwrap();
        drop(free);
        let document = document(folder.path(), driver, lines);
        let words = [
            "--kubeconfig",
            &kubeconfig,
            "--node-name",
            NODE_NAME,
            "--registration",
            "off",
            "--csinode",
            "off",
            "--csidriver",
            "off",
        ];
        let mut host = Host::start(HostOptions {
            backends: vec![document],
            more: words.map(Into::into).into(),
            ..HostOptions::default()
        })
        .unwrap();
        host.options().health = health.to_string();
        host.restart().unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        Self {
            host,
            orchestrator,
            server,
            driver: driver.to_owned(),
            health,
            folder,
        }
    }

    /// Changes the lines of the document; the host sees it by itself.
    pub(crate) fn change(&self, lines: &str) {
        document(self.folder.path(), &self.driver, lines);
    }

    /// The first event about the driver with this reason, once there is one.
    pub(crate) async fn told(&self, reason: &str) -> Event {
        let start = Instant::now();
        loop {
            let events = self.events("CSIDriver", &self.driver, "").await;
            let found = events.into_iter();
            if let Some(event) = found.rev().find(|it| it.reason.as_deref() == Some(reason)) {
                return event;
            }
            let log = self.host.log();
            assert!(start.elapsed() < SEEN, "no event {reason}\n{log}");
            sleep(AGAIN).await;
        }
    }

    /// As external-provisioner asks for the volume of a claim with this uid.
    pub(crate) async fn create(&self, claim: &str, uid: &str, behaviour: &str) -> Code {
        let parameters = [
            ("behaviour", behaviour),
            ("csi.storage.k8s.io/pvc/namespace", NAMESPACE),
            ("csi.storage.k8s.io/pvc/name", claim),
        ];
        let request = CreateVolumeRequest {
            parameters: owned(&parameters),
            secrets: owned(&[("password", PASSWORD)]),
            ..requests::create(&format!("pvc-{uid}"), 1 << 20)
        };
        code(&self.orchestrator.create(request).await)
    }

    /// As kubelet publishes an inline volume of a pod.
    pub(crate) async fn publish(&self, pod: &str, uid: &str, behaviour: &str) -> Code {
        let target = self.orchestrator.target("inline", uid).unwrap();
        let context = [
            ("behaviour", behaviour),
            ("csi.storage.k8s.io/ephemeral", "true"),
            ("csi.storage.k8s.io/pod.namespace", NAMESPACE),
            ("csi.storage.k8s.io/pod.name", pod),
            ("csi.storage.k8s.io/pod.uid", uid),
        ];
        let request = NodePublishVolumeRequest {
            volume_id: format!("csi-{uid}"),
            target_path: target.display().to_string(),
            volume_capability: Some(requests::capability()),
            volume_context: owned(&context),
            secrets: owned(&[("password", PASSWORD)]),
            ..NodePublishVolumeRequest::default()
        };
        code(&self.orchestrator.publish_as(request).await)
    }

    /// The events of an object, as `kubectl describe` asks for them.
    pub(crate) async fn events(&self, kind: &str, name: &str, uid: &str) -> Vec<Event> {
        let client = self.server.client().await;
        let selector = format!(
            "involvedObject.kind={kind},involvedObject.name={name},involvedObject.uid={uid}"
        );
        let events = Api::<Event>::namespaced(client, NAMESPACE);
        let found = events.list(&ListParams::default().fields(&selector)).await;
        found.unwrap().items
    }

    /// Those events, once there are so many.
    pub(crate) async fn comes_to(
        &self,
        kind: &str,
        name: &str,
        uid: &str,
        count: usize,
    ) -> Vec<Event> {
        let start = Instant::now();
        loop {
            let events = self.events(kind, name, uid).await;
            if events.len() >= count {
                return events;
            }
            let log = self.host.log();
            assert!(start.elapsed() < SEEN, "{} events\n{log}", events.len());
            sleep(AGAIN).await;
        }
    }

    /// The value of a metric's line.
    pub(crate) fn metric(&self, line: &str) -> String {
        let text = get(self.health, "/metrics");
        let found = text.lines().find_map(|it| it.strip_prefix(line));
        let found = found.unwrap_or_else(|| panic!("{line} in {text}"));
        found.trim().to_owned()
    }

    /// What `/metrics` says in all.
    pub(crate) fn metrics(&self) -> String {
        get(self.health, "/metrics")
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn document(folder: &Path, driver: &str, lines: &str) -> PathBuf {
    let component = workspace().component("misbehave");
    fs::write(folder.join("password"), PASSWORD).unwrap();
    let text = format!(
        "apiVersion: wasmount.io/v1alpha1\n\
         kind: StorageBackend\n\
         metadata: {{ name: misbehave }}\n\
         spec:\n  \
           driverName: {driver}\n  \
           plugin: {{ path: {component:?} }}\n  \
           secrets: {{ password: {{ file: password }} }}\n  \
           grants: {{ pools: {{ volumes: {{ path: pools/misbehave }} }} }}\n  \
           limits: {{ time: 5s, cpu: 200ms, memory: 48Mi }}\n{lines}"
    );
    let path = folder.join("misbehave.yaml");
    builds::put(text.as_bytes(), &path).unwrap();
    path
}

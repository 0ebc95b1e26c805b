//! The real host that serves objects, and the object that most tests give it.

use crate::server::workspace;
use crate::storage_backends::scene::{Scene, backend, says, soon};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::root::needs_root;

/// The driver of the host's only file.
pub(crate) const OF_FILE: &str = "file.example";

/// A host that serves one file, and the objects with its label.
pub(crate) struct Serving {
    pub(crate) host: Host,
    _folder: TempDir,
}

impl Serving {
    /// By the rights of an administrator.
    pub(crate) fn start(scene: &Scene, label: &str) -> Self {
        Self::start_as(scene, label, HostRole::All, &[])
    }

    /// The same in another role, with more flags.
    pub(crate) fn start_as(scene: &Scene, label: &str, role: HostRole, more: &[&str]) -> Self {
        let selector = format!("test={label}");
        Self::of(&scene.kubeconfig(), &selector, label, role, more)
    }

    /// On this node, by the rights of this kubeconfig.
    pub(crate) fn start_by(kubeconfig: &Path, selector: &str, node: &str) -> Self {
        Self::of(kubeconfig, selector, node, HostRole::All, &[])
    }

    fn of(kubeconfig: &Path, selector: &str, node: &str, role: HostRole, more: &[&str]) -> Self {
        needs_root();
        namespace::enter();
        let folder = tempfile::tempdir().unwrap();
        let (document, _) = documents::directory_of_its_own(folder.path(), OF_FILE).unwrap();
        let kubeconfig = kubeconfig.display().to_string();
        let objects = format!("--storage-backends={selector}");
        let flags = [
            &objects,
            "--storage-backend-status=on",
            "--registration=off",
            "--csinode=off",
            "--csidriver=off",
            "--node-name",
            node,
            "--kubeconfig",
            &kubeconfig,
        ];
        let host = Host::start(HostOptions {
            backends: vec![document],
            role,
            more: flags.iter().chain(more).map(Into::into).collect(),
            ..HostOptions::default()
        });
        Self {
            host: host.unwrap(),
            _folder: folder,
        }
    }

    pub(crate) fn socket(&mut self, driver: &str) -> PathBuf {
        self.host.options().sockets.join(driver).join("csi.sock")
    }

    pub(crate) async fn until_no_socket(&mut self, driver: &str) {
        let socket = self.socket(driver);
        soon("the end of the socket", async || {
            (!socket.exists()).then_some(())
        })
        .await;
    }

    /// Returns when there is a socket that answers.
    pub(crate) async fn until_socket(&mut self, driver: &str) -> PathBuf {
        let socket = self.socket(driver);
        soon("the socket", async || {
            std::os::unix::net::UnixStream::connect(&socket)
                .ok()
                .map(drop)
        })
        .await;
        socket
    }

    pub(crate) async fn orchestrator(&mut self, driver: &str) -> Orchestrator {
        let (socket, kubelet) = (self.socket(driver), self.host.kubelet());
        Orchestrator::connect(&socket, &kubelet).await.unwrap()
    }
}

/// plugins/directory as an object of this name and driver.
pub(crate) fn object(name: &str, driver: &str) -> Value {
    let mut object = backend(name, driver);
    object["metadata"]["labels"] = json!({ "test": name });
    object["spec"]["plugin"]["path"] = json!(workspace().component("directory"));
    object["spec"]["grants"] =
        json!({ "pools": { "volumes": { "path": format!("pools/{name}") } } });
    object
}

/// Its object, once its only host serves it.
pub(crate) async fn served(scene: &Scene, name: &str) -> Value {
    scene
        .until(name, "a serving host", |it| {
            says(it, "Ready", "True", "Serving")
                && it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && it["status"]["hosts"] == json!({ "total": 1, "current": 1 })
        })
        .await
}

//! A real API server with a namespace for each test.

use crate::server::Server;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmount_kubernetes::KubernetesStore;
use wasmount_tests::control_plane::ControlPlane;
use wasmount_tests::relay::Relay;

/// An API server, with a namespace for the records and leases of one test.
pub(crate) struct Plane {
    server: Arc<Server>,
    pub(crate) namespace: String,
}

impl Deref for Plane {
    type Target = ControlPlane;
    fn deref(&self) -> &ControlPlane {
        &self.server.plane
    }
}

impl Plane {
    /// One that the tests share: it must not be stopped.
    pub(crate) async fn shared() -> Self {
        Self::of(Server::shared().await).await
    }

    /// One of its own, for a test that stops it.
    pub(crate) async fn own() -> Self {
        let server = Server::start().await;
        server.add_shared_objects();
        Self::of(Arc::new(server)).await
    }

    async fn of(server: Arc<Server>) -> Self {
        static NAMESPACES: AtomicUsize = AtomicUsize::new(0);
        let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(format!("test-{number}")),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces = Api::all(server.client().await);
        let parameters = PostParams::default();
        namespaces.create(&parameters, &namespace).await.unwrap();
        Self {
            server,
            namespace: namespace.metadata.name.unwrap(),
        }
    }

    /// A store as a process of its own would have it.
    pub(crate) async fn store(&self) -> Arc<KubernetesStore> {
        KubernetesStore::new(self.client().await.unwrap(), &self.namespace)
    }

    /// For `--kubeconfig`.
    pub(crate) fn admin(&self) -> PathBuf {
        self.server.kubeconfig()
    }

    /// A relay to the API server, and a kubeconfig in a folder that goes through it.
    pub(crate) async fn way(&self, folder: &Path, name: &str) -> (Relay, PathBuf) {
        let text = fs::read_to_string(self.admin()).unwrap();
        let server = text.split("https://").nth(1).unwrap();
        let end = server.find(|c: char| c != '.' && c != ':' && !c.is_ascii_digit());
        let server = &server[..end.unwrap_or(server.len())];
        let way = Relay::start(server.parse::<SocketAddr>().unwrap())
            .await
            .unwrap();
        let text = text.replace(server, &way.address().to_string());
        let path = folder.join(format!("{name}.kubeconfig"));
        fs::write(&path, text).unwrap();
        (way, path)
    }
}

//! A real API server that knows the kind of our records.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use wasmount_kubernetes::{KubernetesStore, RECORD_DEFINITION};
use wasmount_tests::control_plane::ControlPlane;
use wasmount_tests::relay::Relay;
use xtask::cluster::access::User;
use xtask::cluster::programs::Programs;
use xtask::workspace::Workspace;

/// An API server that knows the kind, with a namespace for the records and leases of one test.
pub(crate) struct Plane {
    server: Arc<Server>,
    pub(crate) namespace: String,
}

/// etcd and the API server, in a directory that goes with them.
pub(crate) struct Server {
    plane: ControlPlane,
    _directory: TempDir,
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
        static SHARED: OnceCell<Arc<Server>> = OnceCell::const_new();
        let server = SHARED.get_or_init(|| async { Arc::new(Server::start().await) });
        Self::of(server.await.clone()).await
    }

    /// One of its own, for a test that stops it.
    pub(crate) async fn own() -> Self {
        Self::of(Arc::new(Server::start().await)).await
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
        let namespaces = Api::all(server.plane.client().await.unwrap());
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
        self.kubeconfig(User::Admin)
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

impl Server {
    async fn start() -> Self {
        let programs = Programs::build(&Workspace::locate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let plane = ControlPlane::start(&programs, directory.path());
        let plane = plane.await.unwrap();
        let definition: CustomResourceDefinition =
            serde_saphyr::from_str(RECORD_DEFINITION).unwrap();
        let name = definition.metadata.name.clone().unwrap();
        let definitions = Api::all(plane.client().await.unwrap());
        let parameters = PostParams::default();
        let created = definitions.create(&parameters, &definition).await;
        created.unwrap();
        let established = await_condition(definitions, &name, conditions::is_crd_established());
        established.await.unwrap();
        Self {
            plane,
            _directory: directory,
        }
    }
}

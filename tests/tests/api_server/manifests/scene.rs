//! An API server with the CRDs of external-snapshotter, and what the tests ask of it.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wasmount_tests::control_plane::ControlPlane;
use wasmount_tests::pod_token::token_on;
use xtask::cluster;
use xtask::cluster::access::User;
use xtask::cluster::programs::Programs;
use xtask::workspace::Workspace;

pub(crate) const NAMESPACE: &str = "wasmount-system";

/// Longest wait for what happens by itself: a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) plane: ControlPlane,
    pub(crate) client: Client,
    pub(crate) directory: TempDir,
    programs: Programs,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let programs = Programs::build(&workspace()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let plane = ControlPlane::start(&programs, directory.path())
            .await
            .unwrap();
        let client = plane.client().await.unwrap();
        Self {
            plane,
            client,
            directory,
            programs,
        }
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Output {
        Command::new(self.programs.path("kubectl"))
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig(User::Admin))
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Applies a YAML stream as an administrator does.
    pub(crate) fn apply(&self, text: &str) {
        let file = self.directory.path().join("applied.yaml");
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let applied = self.kubectl(&["apply", "--server-side", "-f", file]);
        assert!(applied.status.success(), "{}", error_of(&applied));
    }

    /// What all backends share.
    pub(crate) fn with_shared_objects(&self) {
        self.apply(&read(&mut manifests(&["--shared"])).0);
    }

    /// Deletes all CSIDriver objects.
    pub(crate) fn without_drivers(&self) {
        let deleted = self.kubectl(&["delete", "csidriver", "--all"]);
        assert!(deleted.status.success(), "{}", error_of(&deleted));
    }

    /// The CRDs, from the module that the snapshotter is built from; returns when objects of theirs are taken.
    pub(crate) fn with_snapshot_kinds(&self) {
        let listed = Command::new("go")
            .args(["list", "-m", "-f", "{{.Dir}}"])
            .arg("github.com/kubernetes-csi/external-snapshotter/client/v8")
            .current_dir(workspace().root().join("tests/go/cluster"))
            .output()
            .unwrap();
        assert!(listed.status.success(), "{}", error_of(&listed));
        let module = String::from_utf8(listed.stdout).unwrap();
        let kinds = Path::new(module.trim()).join("config/crd");
        let applied = self.kubectl(&["apply", "--server-side", "-k", kinds.to_str().unwrap()]);
        assert!(applied.status.success(), "{}", error_of(&applied));
        let waited = self.kubectl(&[
            "wait",
            "--for=condition=established",
            "crd",
            "--all",
            "--timeout=60s",
        ]);
        assert!(waited.status.success(), "{}", error_of(&waited));
    }

    /// A kubeconfig by a token of an account, bound to a pod of a node: as kubelet projects it.
    pub(crate) async fn token_on(&self, account: &str, node: &str) -> PathBuf {
        let token = token_on(&self.client, NAMESPACE, account, node);
        let token = token.await.unwrap();
        self.plane
            .kubeconfig_of(&format!("{account}-{node}"), &token)
            .unwrap()
    }

    pub(crate) async fn client_on(&self, account: &str, node: &str) -> Client {
        cluster::client(&self.token_on(account, node).await)
            .await
            .unwrap()
    }
}

pub(crate) fn workspace() -> Workspace {
    Workspace::locate().unwrap()
}

/// What `wasmount manifests` prints for a document, and what it warns of.
pub(crate) fn printed(document: &Path, more: &[&str]) -> (String, String) {
    read(manifests(more).arg("--backend").arg(document))
}

pub(crate) fn run(document: &Path, more: &[&str]) -> Output {
    let mut command = manifests(more);
    command.arg("--backend").arg(document).output().unwrap()
}

fn manifests(arguments: &[&str]) -> Command {
    let mut command = Command::new(workspace().host_program());
    command.arg("manifests").args(arguments);
    command
}

fn read(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let said = error_of(&output);
    assert!(output.status.success(), "{said}");
    (String::from_utf8(output.stdout).unwrap(), said)
}

pub(crate) fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A node with its driver's startup taint and another's.
pub(crate) async fn create_node(client: &Client, name: &str, driver: &str) {
    let node = json!({
        "metadata": { "name": name, "labels": { "zone": "z" } },
        "spec": { "taints": [
            { "key": format!("{driver}/agent-not-ready"), "effect": "NoExecute" },
            { "key": "other", "effect": "NoSchedule" },
        ] },
    });
    let node = serde_json::from_value(node).unwrap();
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
}

/// Patches a Node, by a client's rights.
pub(crate) async fn patch_node(
    client: &Client,
    name: &str,
    patch: Value,
) -> Result<(), kube::Error> {
    let nodes = Api::<Node>::all(client.clone());
    let patch = Patch::Merge(patch);
    nodes
        .patch(name, &PatchParams::default(), &patch)
        .await
        .map(drop)
}

/// HTTP's number and the words of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) -> (u16, String) {
    match outcome {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("no refusal: {other:?}"),
    }
}

/// Waits until something is there.
pub(crate) async fn soon<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

//! An API server that knows the kinds, shared by the tests of this program, and what is asked of it.

use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use wasmount_tests::control_plane::ControlPlane;
use xtask::cluster::access::User;
use xtask::cluster::programs::Programs;
use xtask::place::{self, Place};
use xtask::test::SHARED_CONTROL_PLANE;
use xtask::workspace::Workspace;

/// With the value `true` on an object: its deletion waits for no volume.
pub(crate) const FORCED: &str = "wasmount.io/force-delete";
/// Longest wait for what happens by itself: a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// An API server that knows the kinds, as one test asks it: a client belongs to the runtime of its test.
pub(crate) struct Scene {
    base: Arc<Base>,
    pub(crate) client: Client,
}

pub(crate) struct Base {
    pub(crate) plane: ControlPlane,
    pub(crate) place: Place,
    programs: Programs,
}

impl Deref for Scene {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}

impl Scene {
    /// One of its own, for tests that stop it.
    pub(crate) async fn start() -> Self {
        let programs = Programs::build(&workspace()).unwrap();
        let place = Place::create(SHARED_CONTROL_PLANE).unwrap();
        let plane = ControlPlane::start(&programs, place.root()).await.unwrap();
        let base = Base {
            plane,
            place,
            programs,
        };
        let scene = Self::of(Arc::new(base)).await;
        let shared = manifests(&["--shared"]);
        assert!(shared.status.success(), "{}", said(&shared));
        let file = scene.place.root().join("shared.yaml");
        std::fs::write(&file, shared.stdout).unwrap();
        let applied = scene.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
        assert!(applied.status.success(), "{}", said(&applied));
        let established = scene.kubectl(&[
            "wait",
            "--for=condition=established",
            "crd",
            "--all",
            "--timeout=60s",
        ]);
        assert!(established.status.success(), "{}", said(&established));
        scene
    }

    /// The one that all tests share.
    pub(crate) async fn shared() -> Self {
        static SHARED: OnceCell<Arc<Base>> = OnceCell::const_new();
        let base = SHARED.get_or_init(|| async {
            place::sweep(SHARED_CONTROL_PLANE);
            Scene::start().await.base
        });
        Self::of(base.await.clone()).await
    }

    async fn of(base: Arc<Base>) -> Self {
        let client = base.plane.client().await.unwrap();
        Self { base, client }
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Output {
        Command::new(self.programs.path("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .output()
            .unwrap()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig(User::Admin)
    }

    pub(crate) fn backends(&self) -> Api<DynamicObject> {
        Api::all_with(
            self.client.clone(),
            &kind("StorageBackend", "storagebackends"),
        )
    }

    /// What hosts say of backends.
    pub(crate) fn reports(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &Self::report_kind())
    }

    pub(crate) fn report_kind() -> ApiResource {
        kind("StorageBackendNode", "storagebackendnodes")
    }

    /// What its only host says of a backend, once that is as wanted.
    pub(crate) async fn report(
        &self,
        backend: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let all = self.reports();
        let object = self.backends().get(backend).await.unwrap();
        let uid = object.metadata.uid.unwrap();
        let those = ListParams::default().labels(&format!("wasmount.io/backend-uid={uid}"));
        soon(what, async || {
            let found = all.list(&those).await.ok()?.items;
            assert!(found.len() < 2, "{found:#?}");
            let report = found.into_iter().next()?.data["spec"].clone();
            wanted(&report).then_some(report)
        })
        .await
    }

    /// Applies a backend as an administrator does.
    pub(crate) async fn apply(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let parameters = PatchParams::apply("administrator").force();
        let patch = Patch::Apply(object);
        let backends = self.backends();
        backends.patch(name, &parameters, &patch).await.unwrap();
    }

    /// Its object, once it is as wanted.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let backends = self.backends();
        let mut last = Value::Null;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(object) = backends.get_opt(name).await.unwrap_or_default() {
                last = serde_json::to_value(object).unwrap();
                if wanted(&last) {
                    return last;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("{what} did not come: {last:#}");
    }

    /// Deletes it as an administrator does, and does not wait.
    pub(crate) async fn delete(&self, name: &str) {
        let parameters = DeleteParams::default();
        self.backends().delete(name, &parameters).await.unwrap();
    }

    /// Returns once there is no such backend.
    pub(crate) async fn until_gone(&self, name: &str) {
        let backends = self.backends();
        soon(&format!("the end of {name}"), async || {
            let found = backends.get_opt(name).await.ok()?;
            found.is_none().then_some(())
        })
        .await;
    }
}

fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "wasmount.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "wasmount.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

pub(crate) fn workspace() -> Workspace {
    Workspace::locate().unwrap()
}

/// What `wasmount manifests` makes of some arguments.
pub(crate) fn manifests(arguments: &[&str]) -> Output {
    Command::new(workspace().host_program())
        .arg("manifests")
        .args(arguments)
        .output()
        .unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A backend with this name and driver.
pub(crate) fn backend(name: &str, driver: &str) -> Value {
    json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackend",
        "metadata": { "name": name },
        "spec": { "driverName": driver, "plugin": { "path": "/plugin.wasm" } },
    })
}

/// A condition's status and reason.
pub(crate) fn condition(object: &Value, kind: &str) -> Option<(String, String)> {
    let all = object["status"]["conditions"].as_array()?;
    let found = all.iter().find(|it| it["type"] == kind)?;
    let word = |key: &str| found[key].as_str().map(str::to_owned);
    Some((word("status")?, word("reason")?))
}

/// Whether a condition has this status and reason.
pub(crate) fn says(object: &Value, kind: &str, status: &str, reason: &str) -> bool {
    condition(object, kind) == Some((status.to_owned(), reason.to_owned()))
}

/// Waits until something is there.
pub(crate) async fn soon<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        tokio::time::sleep(LOOK).await;
    }
}

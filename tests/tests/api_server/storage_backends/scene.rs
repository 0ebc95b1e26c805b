//! What is asked of the API server about backends.

pub(crate) use crate::server::soon;
use crate::server::{LOOK, PATIENCE, Server};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

/// With the value `true` on an object: its deletion waits for no volume.
pub(crate) const FORCED: &str = "wasmount.io/force-delete";

/// The API server as one test asks it: a client belongs to the runtime of its test.
pub(crate) struct Scene {
    server: Arc<Server>,
    pub(crate) client: Client,
}

impl Deref for Scene {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Scene {
    /// One of its own, for tests that stop it.
    pub(crate) async fn start() -> Self {
        let server = Server::start().await;
        server.add_shared_objects();
        Self::of(Arc::new(server)).await
    }

    /// The one that all tests share.
    pub(crate) async fn shared() -> Self {
        Self::of(Server::shared().await).await
    }

    async fn of(server: Arc<Server>) -> Self {
        let client = server.client().await;
        Self { server, client }
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

//! A driver with a StorageBackend object as its backend, served by a separate host: what an administrator swaps in a cluster.

use crate::builds;
use crate::cluster::drivers::{self, Driver};
use crate::cluster::objects;
use crate::cluster::scene::Scene;
use crate::cluster::sidecars::{self, PROVISIONER, Sidecars};
use crate::cluster::wait::NotYet;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Resource};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use xtask::cluster::Cluster;
use xtask::command;
use xtask::failure::Failure;
use xtask::files;
use xtask::workspace::Workspace;

/// The driver: images of a pool.
pub const SWAPPED: Driver = Driver::new(
    "swapped.wasmount.io",
    "local-images",
    // Its document is used only to print manifests.
    "csiDriver: { storageCapacity: true }",
);
/// Its StorageClass.
pub const CLASS: &str = "swapped";
/// Its host, as a service of the cluster.
pub const HOST: &str = "wasmount-swapped";

/// The running driver.
#[derive(Debug)]
pub struct Swapped<'a> {
    scene: &'a Scene,
    workspace: Workspace,
}

impl<'a> Swapped<'a> {
    /// Creates the CRDs, the object, the host, the class and the sidecar, and waits until the object reports that it is ready.
    pub async fn begin(scene: &'a Scene) -> Result<Self, Failure> {
        let workspace = Workspace::locate()?;
        let cluster = scene.lab().cluster();
        let definitions = cluster.lab().root().join("definitions.yaml");
        let printed =
            command::read(Command::new(workspace.host_program()).args(["manifests", "--crd"]))?;
        files::write(&definitions, printed)?;
        let mut apply = cluster.kubectl();
        command::read(
            apply
                .args(["apply", "--server-side", "--filename"])
                .arg(&definitions),
        )?;
        command::read(cluster.kubectl().args([
            "wait",
            "--for=condition=established",
            "crd/storagebackends.wasmount.io",
            "--timeout=60s",
        ]))?;

        let swapped = Self { scene, workspace };
        let first = swapped.build("first")?;
        scene.apply(swapped.object(&first)).await?;
        let host = drivers::separate_host(&swapped.workspace, cluster, HOST);
        cluster.run(host.argument("--storage-backends"))?;
        swapped.is_ready().await?;
        let class = objects::storage_class(CLASS, SWAPPED.name, "ext4", &json!({}));
        scene.apply(class).await?;
        SWAPPED.describe(cluster, &first)?;
        let document = SWAPPED.document(cluster);
        let sidecars = Sidecars::admit(
            &SWAPPED,
            &document,
            &swapped.workspace,
            cluster,
            scene.client(),
        );
        cluster.run(sidecars.await?.service(PROVISIONER)?)?;
        Ok(swapped)
    }

    /// Writes a build where the host can read it.
    pub fn build(&self, mark: &str) -> Result<PathBuf, Failure> {
        let root = self.cluster().lab().root();
        let path = root.join(format!("swapped-{mark}.wasm"));
        builds::put(&builds::build_of("local-images", mark)?, &path)?;
        Ok(path)
    }

    /// Sets this build in the object, and waits until its status says that it serves everywhere; returns its digest.
    pub async fn change_to(&self, build: &PathBuf) -> Result<String, Failure> {
        let before = self.digest().await?;
        self.scene.apply(self.object(build)).await?;
        let what = format!("{} serves", build.display());
        self.scene
            .wait(&what, async || {
                let object = self.get().await?;
                let now = digest_of(&object);
                match now {
                    Some(now) if Some(&now) != before.as_ref() && is_true(&object, "Ready") => {
                        Ok(now)
                    }
                    _ => Err(NotYet(format!("{:#}", object.data))),
                }
            })
            .await
    }

    /// Rolls back by one version, as an administrator of the node does; returns the command's output.
    pub fn roll_back(&self) -> Result<String, Failure> {
        self.ask("rollback")
    }

    /// Follows the object again, as an administrator of the node does; returns the command's output.
    pub fn lift(&self) -> Result<String, Failure> {
        self.ask("swap")
    }

    fn ask(&self, command: &str) -> Result<String, Failure> {
        let program = self.workspace.host_program();
        let mut line = self.cluster().enter(&program.display().to_string());
        let data = drivers::data_of(HOST);
        command::read(line.args([command, SWAPPED.name, "--data-dir", &data]))
    }

    /// Waits until a condition of the object is true; returns its reason.
    pub async fn condition(&self, kind: &str) -> Result<String, Failure> {
        let what = format!("the object is {kind}");
        self.scene
            .wait(&what, async || {
                let object = self.get().await?;
                let holds = |it: &&Value| word(it, "status") == Some("True");
                match condition(&object, kind).filter(holds) {
                    Some(it) => Ok(word(it, "reason").unwrap_or_default().to_owned()),
                    None => Err(NotYet(format!("{:#}", object.data))),
                }
            })
            .await
    }

    /// The first digits of the digest of the serving version.
    pub async fn digest(&self) -> Result<Option<String>, Failure> {
        let object = self.api().get(SWAPPED.instance()).await;
        let object = object.map_err(Failure::cannot("get the StorageBackend"))?;
        Ok(digest_of(&object))
    }

    /// The process ids of the host and of the sidecar, which must not change.
    pub fn processes(&self) -> Result<[Option<u32>; 2], Failure> {
        let sidecar = sidecars::service_name(PROVISIONER, &SWAPPED);
        Ok([self.cluster().id(HOST)?, self.cluster().id(&sidecar)?])
    }

    /// Removes the driver: the object first, whose finalizer waits until nothing of it is in use.
    pub async fn end(self) -> Result<(), Failure> {
        let what = "delete the StorageBackend";
        let all = DeleteParams::default();
        self.api()
            .delete(SWAPPED.instance(), &all)
            .await
            .map_err(Failure::cannot(what))?;
        self.scene
            .wait("the StorageBackend is gone", async || {
                match self.api().get_opt(SWAPPED.instance()).await? {
                    None => Ok(()),
                    Some(left) => Err(NotYet(format!("{:?} {:#}", left.meta(), left.data))),
                }
            })
            .await?;
        let sidecar = sidecars::service_name(PROVISIONER, &SWAPPED);
        self.cluster().stop(&sidecar)?;
        self.cluster().stop(HOST)
    }

    async fn is_ready(&self) -> Result<(), Failure> {
        self.condition("Ready").await.map(drop)
    }

    fn cluster(&self) -> &Cluster {
        self.scene.lab().cluster()
    }

    fn object(&self, build: &PathBuf) -> Value {
        json!({
            "apiVersion": "wasmount.io/v1alpha1",
            "kind": "StorageBackend",
            "metadata": { "name": SWAPPED.instance() },
            "spec": {
                "driverName": SWAPPED.name,
                "plugin": { "path": build },
                "csiDriver": { "storageCapacity": true, "fsGroupPolicy": "File" },
                "grants": { "pools": { "images": { "path": drivers::pools().join("swapped") } } },
            },
        })
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("wasmount.io", "v1alpha1", "StorageBackend");
        let resource = kube::api::ApiResource::from_gvk(&kind);
        Api::all_with(self.scene.client(), &resource)
    }

    async fn get(&self) -> Result<DynamicObject, kube::Error> {
        self.api().get(SWAPPED.instance()).await
    }

    /// Changes nothing but an annotation, as users do.
    pub async fn annotate(&self, text: &str) -> Result<(), Failure> {
        let change = json!({ "metadata": { "annotations": { "example.com/why": text } } });
        let patched = self
            .api()
            .patch(
                SWAPPED.instance(),
                &PatchParams::default(),
                &Patch::Merge(change),
            )
            .await;
        patched
            .map(drop)
            .map_err(Failure::cannot("annotate the StorageBackend"))
    }
}

fn digest_of(object: &DynamicObject) -> Option<String> {
    let digest = object.data.pointer("/status/digest")?.as_str()?;
    Some(digest.to_owned())
}

fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    let is_it = |condition: &&Value| word(condition, "type") == Some(kind);
    conditions.iter().find(is_it)
}

fn is_true(object: &DynamicObject, kind: &str) -> bool {
    let observed = object.data.pointer("/status/observedGeneration");
    let is_observed = observed.and_then(Value::as_i64) == object.metadata.generation;
    let holds = |condition| word(condition, "status") == Some("True");
    condition(object, kind).is_some_and(holds) && is_observed
}

fn word<'a>(condition: &'a Value, key: &str) -> Option<&'a str> {
    condition.get(key)?.as_str()
}

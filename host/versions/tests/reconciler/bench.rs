//! A reconciler of one backend, in its own directory.

use crate::engine::engine;
use crate::memory::Memory;
use crate::sources::TestSources;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::timeout;
use wasmount_core::backend::CreateVolume;
use wasmount_core::call::Incoming;
use wasmount_core::capabilities::Profile;
use wasmount_core::document::{Grants, StorageBackend, raw};
use wasmount_core::driver::{Driver, DriverConfig, Role, ServingPolicy};
use wasmount_core::error::Error;
use wasmount_core::names::{DriverName, NodeId, VolumeId};
use wasmount_core::status::{DriverStatus, VersionRecord, VersionState};
use wasmount_engine::NodeFacts;
use wasmount_network::Network;
use wasmount_versions::{
    Desired, DesiredFrom, Migrates, Outcome, ReconcilerParts, Refusal, RollbackRequest,
    VersionReconciler,
};

/// Longer than any operation here takes on a busy machine, including compilation.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// A password that no file may hold.
pub(crate) const PASSWORD: &str = "tr0ub4dor-and-3";

/// A build of a plugin with a mark at its end that every engine ignores: a custom section with a name of one letter.
pub(crate) fn build(plugin: &str, mark: u8) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../plugins/target/wasm32-wasip2/release")
        .join(format!("{plugin}.wasm"));
    let mut wasm = fs::read(&path)
        .unwrap_or_else(|_| panic!("{}: run `cargo xtask plugins` first", path.display()));
    wasm.extend([0, 3, 1, b'm', mark]);
    wasm
}

pub(crate) struct Bench {
    pub(crate) reconciler: Arc<VersionReconciler>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) sources: Arc<TestSources>,
    pub(crate) granted: Arc<Mutex<Vec<Grants>>>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) memory: Arc<Memory>,
    migrates: Migrates,
    role: Role,
    name: DriverName,
}

impl Bench {
    /// A backend whose plugin is a build of `misbehave`, which behaves unless a setting or an id says otherwise.
    pub(crate) async fn serving() -> Self {
        let bench = Self::starting("misbehave", json!({})).await;
        bench.until("it serves", |it| it.version.is_some()).await;
        bench
    }

    /// The same below this directory.
    pub(crate) async fn serving_below(directory: &Path) -> Self {
        let folder = tempfile::tempdir_in(directory).unwrap();
        let bench = Self::starting_in(folder, Role::All, "misbehave", json!({})).await;
        bench.until("it serves", |it| it.version.is_some()).await;
        bench
    }

    pub(crate) async fn starting(plugin: &str, spec: Value) -> Self {
        Self::starting_as(Role::All, plugin, spec).await
    }

    pub(crate) async fn starting_as(role: Role, plugin: &str, spec: Value) -> Self {
        Self::starting_in(tempfile::tempdir().unwrap(), role, plugin, spec).await
    }

    async fn starting_in(folder: tempfile::TempDir, role: Role, plugin: &str, spec: Value) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = DriverName::parse(format!("test-{number}.wasmount.io")).unwrap();
        put(&build(plugin, 1), &folder.path().join("plugin.wasm"));
        let sources = Arc::new(TestSources::default());
        *sources.secret.lock().unwrap() = Some(PASSWORD.to_owned());
        let first = desired(&name, folder.path(), spec);
        let alone = (Arc::default(), Migrates::ThisProcess, role);
        Self::start(name, folder, sources, alone, first).await
    }

    /// One of several hosts that share the records; it is a standby, with this document.
    pub(crate) async fn beside(memory: Arc<Memory>, name: &DriverName, spec: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        put(&build("migrant", 1), &folder.path().join("plugin.wasm"));
        let sources = Arc::new(TestSources::default());
        *sources.secret.lock().unwrap() = Some(PASSWORD.to_owned());
        let first = desired(name, folder.path(), spec);
        let shared = (memory, Migrates::TheElected, Role::All);
        let bench = Self::start(name.clone(), folder, sources, shared, first).await;
        bench.until("it serves", |it| it.version.is_some()).await;
        bench
    }

    async fn start(
        name: DriverName,
        folder: tempfile::TempDir,
        sources: Arc<TestSources>,
        (memory, migrates, role): (Arc<Memory>, Migrates, Role),
        desired: Desired,
    ) -> Self {
        let config = DriverConfig {
            name: name.clone(),
            role,
            profile: Profile::V1_12,
            node_id: NodeId::parse("node", "node-1").unwrap(),
            policy: ServingPolicy::default(),
        };
        let driver = Driver::new(config, memory.clone(), memory.clone());
        if migrates == Migrates::TheElected {
            driver.stand_by();
        }
        let granted = Arc::<Mutex<Vec<Grants>>>::default();
        let grant = granted.clone();
        let parts = ReconcilerParts {
            network: Network::new(Vec::new()),
            node_facts: NodeFacts::given(Default::default()),
            engine: engine().clone(),
            driver: driver.clone(),
            state: memory.clone(),
            mounter: memory.clone(),
            node_name: None,
            sources: sources.clone(),
            directory: folder.path().join("versions"),
            migrates,
            grants: Arc::new(move |grants| {
                grant.lock().unwrap().push(grants);
                Box::pin(async { Ok(()) })
            }),
        };
        Self {
            reconciler: VersionReconciler::start(parts, desired).await,
            driver,
            sources,
            granted,
            folder,
            memory,
            migrates,
            role,
            name,
        }
    }

    /// The same backend in the next process, with this document. The process before ends as a killed one does.
    pub(crate) async fn restarted(self, spec: Value) -> Self {
        let desired = self.desired(spec);
        self.restarted_with(desired).await
    }

    /// The same, where the document is an object.
    pub(crate) async fn restarted_with_object(self, spec: Value) -> Self {
        let desired = of_object(self.desired(spec));
        self.restarted_with(desired).await
    }

    /// The same, with records of other hosts.
    pub(crate) async fn on(self, memory: Arc<Memory>, spec: Value) -> Self {
        let bench = self.restarted_on(memory, spec).await;
        bench.until("it serves", |it| it.version.is_some()).await;
        bench
    }

    /// The same; it may wait for something else first.
    pub(crate) async fn restarted_on(mut self, memory: Arc<Memory>, spec: Value) -> Self {
        self.memory = memory;
        self.restarted(spec).await
    }

    async fn restarted_with(self, desired: Desired) -> Self {
        let Self {
            reconciler,
            folder,
            name,
            sources,
            memory,
            migrates,
            role,
            ..
        } = self;
        drop(reconciler);
        Self::start(name, folder, sources, (memory, migrates, role), desired).await
    }

    /// The same without the component that it served and without its compiled code.
    pub(crate) async fn restarted_without_code(self, spec: Value) -> Self {
        self.reconciler.stop().await;
        engine().retain_compiled(&self.name, &[]).await;
        for name in self.names("versions") {
            if name.ends_with(".wasm") {
                fs::remove_file(self.folder.path().join("versions").join(name)).unwrap();
            }
        }
        self.restarted(spec).await
    }

    /// The same without one component and its compiled code.
    pub(crate) async fn restarted_without(self, digest: &str, spec: Value) -> Self {
        self.reconciler.stop().await;
        let others = self.reconciler.history().into_iter().map(|it| it.digest);
        let others: Vec<_> = others.filter(|other| other != digest).collect();
        engine().retain_compiled(&self.name, &others).await;
        let hex = digest.trim_start_matches("sha256:");
        let named = |name: &&String| name.contains(hex) && name.ends_with(".wasm");
        let names = self.names("versions");
        let name = names.iter().find(named).unwrap();
        fs::remove_file(self.folder.path().join("versions").join(name)).unwrap();
        self.restarted(spec).await
    }

    pub(crate) fn desired(&self, spec: Value) -> Desired {
        desired(&self.name, self.folder.path(), spec)
    }

    /// Sets this document, and waits until its outcome is known.
    pub(crate) async fn set_desired(&self, spec: Value) -> DriverStatus {
        let wish = self.reconciler.set_desired(self.desired(spec));
        self.until("it is settled", |it| it.settled >= wish).await
    }

    /// Waits until this version serves.
    pub(crate) async fn until_serves(&self, number: u64) -> DriverStatus {
        let serves = |it: &DriverStatus| it.version.as_ref().is_some_and(|it| it.number == number);
        self.until(&format!("version {number} serves"), serves)
            .await
    }

    /// Rolls back to this version, or to the one before.
    pub(crate) async fn back(&self, to: Option<u64>) -> Result<Outcome, Refusal> {
        let request = RollbackRequest { to, from: None };
        self.reconciler.rollback(request).await
    }

    /// Writes a component to where the document names it, and notifies the reconciler.
    pub(crate) fn replace(&self, wasm: &[u8]) {
        put(wasm, &self.plugin());
        self.reconciler.check_again();
    }

    pub(crate) fn plugin(&self) -> PathBuf {
        self.folder.path().join("plugin.wasm")
    }

    pub(crate) async fn until(
        &self,
        what: &str,
        so: impl Fn(&DriverStatus) -> bool,
    ) -> DriverStatus {
        let mut watch = self.reconciler.watch();
        let status = timeout(PATIENCE, watch.wait_for(|status| so(status))).await;
        match status {
            Ok(status) => status.unwrap().clone(),
            Err(_) => panic!("never: {what}; {:#?}", self.reconciler.status()),
        }
    }

    /// The number of the version that serves.
    pub(crate) fn number(&self) -> u64 {
        self.reconciler.status().version.unwrap().number
    }

    pub(crate) fn record(&self, number: u64) -> VersionRecord {
        let mut history = self.reconciler.history().into_iter();
        history.find(|record| record.number == number).unwrap()
    }

    pub(crate) fn is_rolled_back(&self, number: u64) -> bool {
        matches!(self.record(number).state, VersionState::RolledBack)
    }

    /// A call in which the plugin behaves as this id says.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), Error> {
        let id = VolumeId::parse("id", id).unwrap();
        self.driver.delete_volume(incoming(), id).await
    }

    /// A call that the plugin answers well.
    pub(crate) async fn calls(&self) {
        self.delete("v").await.unwrap();
    }

    /// A call in which the plugin traps.
    pub(crate) async fn traps(&self) {
        let error = self.delete("trap").await.unwrap_err();
        assert!(error.to_string().contains("trapped"), "{error}");
    }

    /// The same for an object.
    pub(crate) async fn want_object(&self, spec: Value) -> DriverStatus {
        let wish = self.reconciler.set_desired(of_object(self.desired(spec)));
        self.until("it is settled", |it| it.settled >= wish).await
    }

    /// Components on disk, once those that no version needs are removed: that happens after the answer to a swap, and before the answer to the next
    /// command.
    pub(crate) async fn kept_components(&self) -> usize {
        self.reconciler.undrain().await.unwrap();
        let names = self.names("versions");
        names.iter().filter(|name| name.ends_with(".wasm")).count()
    }

    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join(folder)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Written aside and renamed, as a careful administrator does.
pub(crate) fn put(bytes: &[u8], path: &Path) {
    let aside = path.with_extension("coming");
    fs::write(&aside, bytes).unwrap();
    fs::rename(&aside, path).unwrap();
}

pub(crate) fn incoming() -> Incoming {
    Incoming {
        request_id: "test".to_owned(),
        ..Incoming::default()
    }
}

pub(crate) fn create(name: &str) -> CreateVolume {
    CreateVolume {
        name: wasmount_core::names::RequestedName::parse("name", name).unwrap(),
        capacity: wasmount_core::volume::CapacityRange::default(),
        capabilities: Vec::new(),
        parameters: wasmount_core::attributes::Attributes::default(),
        mutable_parameters: wasmount_core::attributes::Attributes::default(),
        content_source: None,
        accessibility: None,
    }
}

/// A document for the plugin in the folder, with these fields added to its spec.
fn desired(name: &DriverName, folder: &Path, more: Value) -> Desired {
    let mut spec = json!({
        "driverName": name.to_string(),
        "plugin": { "path": "plugin.wasm" },
    });
    let (Value::Object(spec_map), Value::Object(more)) = (&mut spec, more) else {
        panic!("a spec is an object");
    };
    spec_map.extend(more);
    let document: raw::Document = serde_json::from_value(json!({
        "apiVersion": "wasmount.io/v1alpha1",
        "kind": "StorageBackend",
        "metadata": { "name": "test" },
        "spec": spec,
    }))
    .unwrap();
    Desired {
        document: StorageBackend::try_from(document).unwrap(),
        folder: folder.to_owned(),
        from: DesiredFrom::File(folder.join("backend.yaml")),
    }
}

fn of_object(desired: Desired) -> Desired {
    Desired {
        from: DesiredFrom::Object("test".to_owned()),
        ..desired
    }
}

/// Settings that make the plugin do this at admission.
pub(crate) fn behaving(word: &str) -> Value {
    json!({ "settings": { "behaviour": word } })
}

/// How many faults roll a version back, and within which time.
pub(crate) fn trial(setting: &str, faults: u32, window: &str) -> Value {
    json!({
        "settings": { "setting": setting },
        "versions": { "rollback": { "faults": faults, "window": window } },
    })
}

//! Two backends of one namespace, each with the token of its controller: neither writes a record, a lease or a capacity of the other.

use crate::manifests::scene::{NAMESPACE, Scene, driver, printed, refusal, renamed, soon};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::error::Error;
use std::sync::Arc;
use tokio::sync::OnceCell;
use wasmount_core::names::DriverName;
use wasmount_core::state::{Expect, Keyspace, KeyspaceOwner, Outcome, StateStore};
use wasmount_kubernetes::KubernetesStore;
use wasmount_tests::documents;

/// A backend, as the pod of its controller reaches the API server.
struct Neighbour {
    name: &'static str,
    client: Client,
    store: Arc<KubernetesStore>,
}

impl Neighbour {
    /// By a token of what was applied for it, of a pod on a node. Which node that is does not matter to a controller.
    async fn of(scene: &Scene, name: &'static str, node: &str) -> Self {
        let account = format!("wasmount-{name}-controller");
        let client = scene.client_on(&account, node).await;
        let store = KubernetesStore::new(client.clone(), NAMESPACE);
        Self {
            name,
            client,
            store,
        }
    }

    fn space(&self) -> Keyspace {
        Keyspace {
            driver: DriverName::parse(driver(self.name)).unwrap(),
            owner: KeyspaceOwner::Backend,
        }
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &kind)
    }

    fn records(&self) -> Api<DynamicObject> {
        self.api("wasmount.io", "v1alpha1", "BackendRecord")
    }

    fn leases(&self) -> Api<DynamicObject> {
        self.api("coordination.k8s.io", "v1", "Lease")
    }

    fn capacities(&self) -> Api<DynamicObject> {
        self.api("storage.k8s.io", "v1", "CSIStorageCapacity")
    }
}

/// Applies what is printed for a backend.
fn apply(scene: &Scene, name: &str) {
    let folder = scene.directory.path();
    let document = documents::hostpath_over_pool(folder, "/srv".as_ref()).unwrap();
    let text = std::fs::read_to_string(&document).unwrap();
    std::fs::write(&document, renamed(&text, name)).unwrap();
    scene.apply(&printed(&document, &["--topology", "network"]).0);
}

async fn create(api: &Api<DynamicObject>, object: Value) -> Result<DynamicObject, kube::Error> {
    let object = serde_json::from_value(object).unwrap();
    api.create(&Default::default(), &object).await
}

async fn change(
    api: &Api<DynamicObject>,
    name: &str,
    change: Value,
) -> Result<DynamicObject, kube::Error> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await
}

async fn remove(api: &Api<DynamicObject>, name: &str) -> Result<(), kube::Error> {
    api.delete(name, &DeleteParams::default()).await.map(drop)
}

async fn replace(api: &Api<DynamicObject>, object: &DynamicObject) -> Result<(), kube::Error> {
    let name = object.metadata.name.as_deref().unwrap();
    api.replace(name, &Default::default(), object)
        .await
        .map(drop)
}

fn record(name: &str, driver: &str) -> Value {
    json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "BackendRecord",
        "metadata": { "name": name, "labels": {
            "wasmount.io/driver": driver, "wasmount.io/owner": "backend",
        } },
        "spec": { "key": "k", "value": "", "write": "w" },
    })
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name },
        "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 15 },
    })
}

fn capacity(name: &str, driver: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": { "name": name, "labels": { "csi.storage.k8s.io/drivername": driver } },
        "storageClassName": driver, "capacity": "1Gi",
    })
}

/// By the admission policy.
fn assert_not_its_own<T: std::fmt::Debug>(outcome: Result<T, kube::Error>, resource: &str) {
    let (code, said) = refusal(outcome);
    let words = format!("the backend b writes no {resource} of other backends");
    assert!(code == 403 && said.contains(&words), "{code} {said}");
}

/// By RBAC.
fn assert_no_right<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) {
    let (code, said) = refusal(outcome);
    assert!(code == 403 && said.contains("cannot "), "{code} {said}");
}

/// The two of all tests: one has records, one leases, one capacities, and each has a node of its own.
async fn two(scene: &Scene, node: &str) -> [Neighbour; 2] {
    static APPLIED: OnceCell<()> = OnceCell::const_new();
    let names = ["a", "b"];
    let applied = APPLIED.get_or_init(async || names.iter().for_each(|name| apply(scene, name)));
    applied.await;
    let both = [
        Neighbour::of(scene, names[0], node).await,
        Neighbour::of(scene, names[1], node).await,
    ];
    // The policies take a moment to be in force.
    for one in &both {
        let leases = one.leases();
        soon("the policy", async || {
            create(&leases, lease(&format!("before-{}", one.name)))
                .await
                .err()
                .filter(|error| matches!(error, kube::Error::Api(status) if status.code == 403))
        })
        .await;
    }
    both
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_refuses_a_backend_the_records_of_another() {
    let scene = Scene::shared().await;
    let [a, b] = two(&scene, "records").await;
    let (space, expect) = (a.space(), Expect::Absent);
    let put = a.store.put(&space, "k", b"v".to_vec(), expect).await;
    assert!(matches!(put.unwrap(), Outcome::Done(_)));
    // Other tests have records in this namespace, too.
    let own = ListParams::default().labels(&format!("wasmount.io/driver={}", driver(a.name)));
    let listed = a.records().list(&own).await.unwrap();
    let name = listed.items[0].metadata.name.clone().unwrap();

    let resource = "backendrecords";
    let theirs = b.records();
    assert_not_its_own(create(&theirs, record("new", "a.example")).await, resource);
    let spoilt = json!({ "spec": { "value": "AA==" } });
    assert_not_its_own(change(&theirs, &name, spoilt).await, resource);
    let label =
        |driver: &str| json!({ "metadata": { "labels": { "wasmount.io/driver": driver } } });
    assert_not_its_own(change(&theirs, &name, label("b.example")).await, resource);
    assert_not_its_own(remove(&theirs, &name).await, resource);
    let all = (DeleteParams::default(), ListParams::default());
    assert_no_right(theirs.delete_collection(&all.0, &all.1).await);
    let kept = a.store.get(&space, "k").await.unwrap().unwrap();
    assert_eq!(kept.value, b"v");

    // It may change its own, and cannot give them away.
    let own = b.space();
    let put = b.store.put(&own, "k", b"w".to_vec(), Expect::Any).await;
    assert!(matches!(put.unwrap(), Outcome::Done(_)));
    create(&theirs, record("own", "b.example")).await.unwrap();
    assert_not_its_own(change(&theirs, "own", label("a.example")).await, resource);
    remove(&theirs, "own").await.unwrap();

    // A name is a hash, which no policy can tell: a record under the name of another's is refused there.
    a.store.remove(&space, "k", Expect::Any).await.unwrap();
    create(&theirs, record(&name, "b.example")).await.unwrap();
    let refused = a.store.get(&space, "k").await.unwrap_err();
    let source = refused.source().unwrap().to_string();
    assert!(source.contains("is of another driver"), "{source}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_refuses_a_backend_the_lease_of_another() {
    let scene = Scene::shared().await;
    let [a, b] = two(&scene, "leases").await;
    let theirs = b.leases();
    let stolen = create(&theirs, lease("wasmount-a.example")).await;
    assert_not_its_own(stolen, "leases");
    create(&a.leases(), lease("wasmount-a.example"))
        .await
        .unwrap();
    assert_no_right(theirs.get("wasmount-a.example").await);
    let taken = serde_json::from_value(lease("wasmount-a.example")).unwrap();
    let replaced = replace(&theirs, &taken).await;
    assert_no_right(replaced);
    assert_no_right(remove(&theirs, "wasmount-a.example").await);

    let taken = create(&theirs, lease("wasmount-b.example")).await.unwrap();
    replace(&theirs, &taken).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_refuses_a_backend_the_capacity_of_another() {
    let scene = Scene::shared().await;
    let [a, b] = two(&scene, "capacities").await;
    let resource = "csistoragecapacities";
    let theirs = b.capacities();
    create(&a.capacities(), capacity("of-a", "a.example"))
        .await
        .unwrap();
    assert_not_its_own(
        create(&theirs, capacity("new", "a.example")).await,
        resource,
    );
    let none = json!({ "capacity": "0" });
    assert_not_its_own(change(&theirs, "of-a", none.clone()).await, resource);
    let gone = remove(&theirs, "of-a").await;
    assert_not_its_own(gone, resource);

    create(&theirs, capacity("of-b", "b.example"))
        .await
        .unwrap();
    change(&theirs, "of-b", none).await.unwrap();
    remove(&theirs, "of-b").await.unwrap();
}

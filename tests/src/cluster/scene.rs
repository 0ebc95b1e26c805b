//! The namespace of one test, the objects that it creates there, and the check at the end that nothing of it is left, neither in the API server nor
//! on the node.

use crate::cluster::lab::Lab;
use crate::cluster::leftovers::{self, Gone};
use crate::cluster::objects::{self, Claim, Volume};
use crate::cluster::pods;
use crate::cluster::wait::{NotYet, wait_for};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::Arc;
use xtask::failure::Failure;

/// The field manager for server-side apply.
const MANAGER: &str = "wasmount-tests";

/// A namespace that exists as long as a test runs.
#[derive(Debug, Clone)]
pub struct Scene {
    lab: Arc<Lab>,
    namespace: String,
}

impl Scene {
    /// Creates the namespace, with a name that identifies the test.
    pub async fn begin(lab: Arc<Lab>, namespace: &str) -> Result<Self, Failure> {
        let scene = Self {
            lab,
            namespace: namespace.to_owned(),
        };
        let object =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        scene.apply(object).await?;
        // The API server rejects pods of a namespace until its service account exists.
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = scene.api();
        scene
            .wait("the default ServiceAccount", async || {
                Ok(accounts.get("default").await?)
            })
            .await?;
        Ok(scene)
    }

    /// Another namespace of the same test, for what goes on beside this one.
    pub async fn beside(&self, namespace: &str) -> Result<Self, Failure> {
        Self::begin(self.lab.clone(), namespace).await
    }

    /// The fixture that all scenes share.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.lab.client()
    }

    /// Objects of a kind in its namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Waits; see [`wait_for`].
    pub async fn wait<T>(
        &self,
        what: &str,
        look: impl AsyncFnMut() -> Result<T, NotYet>,
    ) -> Result<T, Failure> {
        wait_for(&self.client(), &self.namespace, what, look).await
    }

    /// Server-side apply of an object of any kind, in its namespace if the kind has one.
    pub async fn apply(&self, object: Value) -> Result<DynamicObject, Failure> {
        self.lab.apply(&self.namespace, MANAGER, object).await
    }

    /// Objects of any kind in its namespace.
    pub async fn api_of(&self, group: &str, kind: &str) -> Result<Api<DynamicObject>, Failure> {
        let kind = GroupVersionKind::gvk(group, "v1", kind);
        let (resource, _) = kube::discovery::pinned_kind(&self.client(), &kind)
            .await
            .map_err(Failure::cannot(format!("find {kind:?}")))?;
        Ok(Api::namespaced_with(
            self.client(),
            &self.namespace,
            &resource,
        ))
    }

    /// Creates a claim.
    pub async fn claim(&self, claim: &Claim) -> Result<(), Failure> {
        self.apply(claim.object()).await.map(drop)
    }

    /// Creates a pod without waiting for it; `settings` are added to its specification.
    pub async fn pod_with(
        &self,
        name: &str,
        volumes: &[Volume],
        settings: &Value,
    ) -> Result<(), Failure> {
        self.apply(objects::pod(name, volumes, settings))
            .await
            .map(drop)
    }

    /// Creates a pod and waits until it is ready.
    pub async fn pod(&self, name: &str, volumes: &[Volume]) -> Result<(), Failure> {
        self.pod_with(name, volumes, &Value::Null).await?;
        self.ready(name).await
    }

    /// Waits until a pod is ready.
    pub async fn ready(&self, name: &str) -> Result<(), Failure> {
        let pods: Api<Pod> = self.api();
        let what = format!("pod {name} is ready");
        self.wait(&what, async || {
            let status = pods.get(name).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            match conditions.find(|it| it.type_ == "Ready" && it.status == "True") {
                Some(_) => Ok(()),
                None => Err(NotYet(format!(
                    "{:?} {:?}",
                    status.phase, status.conditions
                ))),
            }
        })
        .await
    }

    /// Waits until the scheduler has reported why a pod has no node; returns its message.
    pub async fn unschedulable(&self, name: &str, words: &str) -> Result<String, Failure> {
        let pods: Api<Pod> = self.api();
        let what = format!("pod {name} cannot be scheduled: {words}");
        self.wait(&what, async || {
            let status = pods.get(name).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            let said = conditions.find(|it| it.type_ == "PodScheduled" && it.status == "False");
            let said = said.and_then(|it| it.message.clone()).unwrap_or_default();
            if said.contains(words) {
                Ok(said)
            } else {
                Err(NotYet(said))
            }
        })
        .await
    }

    /// Runs a shell script in a pod.
    pub async fn shell(&self, pod: &str, script: &str) -> Result<String, Failure> {
        pods::shell(&self.api(), pod, script).await
    }

    /// The volume that a claim is bound to.
    pub async fn volume_of(&self, claim: &str) -> Result<PersistentVolume, Failure> {
        let claims: Api<PersistentVolumeClaim> = self.api();
        let volumes: Api<PersistentVolume> = Api::all(self.client());
        self.wait(&format!("claim {claim} is bound"), async || {
            let claim = claims.get(claim).await?;
            let name = claim.spec.and_then(|it| it.volume_name);
            let name = name.ok_or_else(|| NotYet(format!("{:?}", claim.status)))?;
            Ok(volumes.get(&name).await?)
        })
        .await
    }

    /// Requests more space for a claim.
    pub async fn grow(&self, claim: &str, size: &str) -> Result<(), Failure> {
        let change = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
        let claims: Api<PersistentVolumeClaim> = self.api();
        claims
            .patch(claim, &PatchParams::default(), &Patch::Merge(change))
            .await
            .map_err(Failure::cannot(format!("grow claim {claim}")))
            .map(drop)
    }

    /// Deletes an object and waits until it is gone.
    pub async fn delete<K>(&self, name: &str) -> Result<(), Failure>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        self.delete_in(&self.api::<K>(), name).await
    }

    /// The same for objects of any kind.
    pub async fn delete_in<K>(&self, api: &Api<K>, name: &str) -> Result<(), Failure>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let what = format!("delete {name}");
        api.delete(name, &DeleteParams::default())
            .await
            .map_err(Failure::cannot(&what))?;
        self.wait(&format!("{name} is gone"), async || {
            match api.get_opt(name).await? {
                None => Ok(()),
                Some(left) => Err(NotYet(format!("{left:?}"))),
            }
        })
        .await
    }

    /// Deletes everything, and waits until nothing is left anywhere: no volume, no attachment, no mount, no loop device, nothing in a pool.
    pub async fn end(&self) -> Result<(), Failure> {
        let gone = self.now_gone().await?;
        let all = DeleteParams::default();
        let pods: Api<Pod> = self.api();
        pods.delete_collection(&all, &ListParams::default())
            .await
            .map_err(Failure::cannot("delete the pods"))?;
        self.wait("the pods are gone", async || nothing(&pods).await)
            .await?;
        let claims: Api<PersistentVolumeClaim> = self.api();
        claims
            .delete_collection(&all, &ListParams::default())
            .await
            .map_err(Failure::cannot("delete the claims"))?;
        for (group, kind) in [
            ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshot"),
            ("snapshot.storage.k8s.io", "VolumeSnapshot"),
        ] {
            let snapshots = self.api_of(group, kind).await?;
            for each in listed(&snapshots).await? {
                // Members are deleted with their group.
                if each.owner_references().is_empty() {
                    self.delete_in(&snapshots, &each.name_any()).await?;
                }
            }
            self.wait("the snapshots are gone", async || nothing(&snapshots).await)
                .await?;
        }
        self.wait("the claims are gone", async || nothing(&claims).await)
            .await?;
        self.wait("nothing is left of the volumes", async || {
            self.nothing_left(&gone).await
        })
        .await?;
        self.abandon().await
    }

    /// Requests the deletion of everything, without waiting: the scene is no longer needed, and its end is not part of the test.
    pub async fn abandon(&self) -> Result<(), Failure> {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client());
        let all = DeleteParams::default();
        match namespaces.delete(&self.namespace, &all).await {
            // It was ended before, by its test.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted
                .map(drop)
                .map_err(Failure::cannot("delete the namespace")),
        }
    }

    /// The volumes and pods that exist before the deletion.
    async fn now_gone(&self) -> Result<Gone, Failure> {
        let pods: Api<Pod> = self.api();
        let pods = listed(&pods).await?;
        let volumes = self.volumes().await?;
        let handle = |it: PersistentVolume| Some(it.spec?.csi?.volume_handle);
        Ok(Gone {
            handles: volumes.into_iter().filter_map(handle).collect(),
            pods: pods.iter().filter_map(ResourceExt::uid).collect(),
        })
    }

    async fn nothing_left(&self, gone: &Gone) -> Result<(), NotYet> {
        let volumes = self.volumes().await?;
        if let Some(volume) = volumes.first() {
            return Err(NotYet(format!("{} {:?}", volume.name_any(), volume.status)));
        }
        let attachments: Api<VolumeAttachment> = Api::all(self.client());
        let names = listed(&attachments).await?.into_iter();
        let names: Vec<_> = names
            .filter_map(|it| it.spec.source.persistent_volume_name)
            .collect();
        let known: Api<PersistentVolume> = Api::all(self.client());
        let known: Vec<_> = listed(&known)
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        if let Some(orphan) = names.iter().find(|name| !known.contains(name)) {
            return Err(NotYet(format!("{orphan} is still attached")));
        }
        let left = leftovers::left_of(self.lab.cluster(), gone)?;
        if left.is_empty() {
            Ok(())
        } else {
            Err(NotYet(left.join("\n")))
        }
    }

    /// Volumes of claims of the namespace, also after the claims were deleted.
    async fn volumes(&self) -> Result<Vec<PersistentVolume>, Failure> {
        let volumes: Api<PersistentVolume> = Api::all(self.client());
        let mut volumes = listed(&volumes).await?;
        volumes.retain(|volume| {
            let claim = volume.spec.as_ref().and_then(|it| it.claim_ref.as_ref());
            claim.and_then(|it| it.namespace.as_ref()) == Some(&self.namespace)
        });
        Ok(volumes)
    }
}

/// All objects of a kind.
async fn listed<K: Clone + DeserializeOwned + Debug>(api: &Api<K>) -> Result<Vec<K>, Failure> {
    let list = api.list(&ListParams::default()).await;
    list.map(|it| it.items)
        .map_err(Failure::cannot("list objects"))
}

async fn nothing<K: Clone + DeserializeOwned + Debug + ResourceExt>(
    api: &Api<K>,
) -> Result<(), NotYet> {
    match listed(api).await?.first() {
        None => Ok(()),
        Some(left) => Err(NotYet(format!("{} {:?}", left.name_any(), left.meta()))),
    }
}

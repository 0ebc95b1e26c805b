//! The state store on objects of the API server, for controllers with several replicas. It is in this crate since it only sends requests to the API
//! server; `core` has the trait.
//!
//! ```text
//! get, put, remove ──▶ API server (decides conflicts by resourceVersion; an answered write is durable in etcd)
//! scan, size       ──▶ cache: listed once, watched, with our own writes at once
//! ```
//!
//! A request that is not answered in time fails; it may have been carried out, as with a disk. The store does not know what is stored.

mod cache;
mod record;

use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::request::{answered, create_as};
use async_trait::async_trait;
use cache::Cache;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Client, Error};
pub(crate) use record::DRIVER as DRIVER_LABEL;
use record::{BackendRecord, RecordSpec};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::timeout;
use wasmount_core::mutex::lock;
use wasmount_core::state::{
    Expect, Keyspace, Outcome, StateEntry, StateError, StateStore, check_key, check_value,
};

/// The definition of their kind; an administrator applies it before a backend.
pub const RECORD_DEFINITION: &str = include_str!("state/backendrecords.yaml");

/// How long a caller waits for the first listing of a keyspace; the listing continues. 30 s: half of a call's time limit.
const LISTING: Duration = Duration::from_secs(30);

/// How often a write without an expectation is repeated because the record is created and deleted meanwhile. 8: each time another writer was first.
const TURNS: u32 = 8;

/// A state store in a namespace of the API server.
pub struct KubernetesStore {
    records: Api<BackendRecord>,
    caches: Mutex<HashMap<Keyspace, Arc<Cache>>>,
}

impl KubernetesStore {
    /// Sends no request yet: the API server may not be reachable. Records are in `namespace`.
    pub fn new(client: Client, namespace: &str) -> Arc<Self> {
        Arc::new(Self {
            records: Api::namespaced_with(client, namespace, &record::resource()),
            caches: Mutex::default(),
        })
    }

    /// Makes all earlier writes of others visible, however late the watches are: they start again. Call it when this host takes over.
    pub fn forget(&self) {
        self.caches().clear();
    }

    fn caches(&self) -> MutexGuard<'_, HashMap<Keyspace, Arc<Cache>>> {
        lock(&self.caches)
    }

    /// The cache of a keyspace, fully listed.
    async fn listed(&self, space: &Keyspace) -> Result<Arc<Cache>, KubernetesError> {
        let start = || Arc::new(Cache::start(self.records.clone(), space));
        let cache = Arc::clone(self.caches().entry(space.clone()).or_insert_with(start));
        match timeout(LISTING, cache.listed()).await {
            Ok(()) => Ok(cache),
            Err(_) => Err(KubernetesError::Silent {
                what: "list the records".to_owned(),
                seconds: LISTING.as_secs(),
            }),
        }
    }

    /// Shows our own write in the cache of its keyspace, if there is one.
    fn learn(&self, space: &Keyspace, key: &str, revision: u64, value: Option<Vec<u8>>) {
        let cache = self.caches().get(space).cloned();
        if let Some(cache) = cache {
            cache.index().learn(key.to_owned(), revision, value);
        }
    }

    async fn read(
        &self,
        space: &Keyspace,
        key: &str,
    ) -> Result<Option<StateEntry>, KubernetesError> {
        let name = record::name(space, key);
        // Without a resource version the answer is etcd's newest.
        let Some(record) = send("get", &name, self.records.get(&name)).await? else {
            return Ok(None);
        };
        let entry = record::entry(space, record)?;
        if entry.key != key {
            return Err(KubernetesError::ForeignRecord(name));
        }
        Ok(Some(entry))
    }

    /// The revision of the new record; none: there is one already.
    async fn create(
        &self,
        space: &Keyspace,
        name: &str,
        spec: RecordSpec,
    ) -> Result<Option<u64>, KubernetesError> {
        let (parameters, object) = (create_as(FIELD_MANAGER), record::object(space, name, spec));
        let created = send("put", name, self.records.create(&parameters, &object)).await?;
        let revision = created.map(|object| record::revision(&object.metadata));
        revision.transpose()
    }

    /// Changes an existing record, at a revision if one is given; none: there is no such record.
    async fn update(
        &self,
        name: &str,
        spec: RecordSpec,
        expected: Option<u64>,
    ) -> Result<Option<u64>, KubernetesError> {
        let metadata = ObjectMeta {
            resource_version: expected.map(|revision| revision.to_string()),
            ..ObjectMeta::default()
        };
        let patch = Patch::Merge(json!({ "metadata": metadata, "spec": spec }));
        let parameters = PatchParams::apply(FIELD_MANAGER);
        let request = self.records.patch_metadata(name, &parameters, &patch);
        let patched = send("put", name, request).await?;
        let revision = patched.map(|object| record::revision(&object.metadata));
        revision.transpose()
    }

    /// Writes a record whether or not it exists; none: another writer was first each time.
    async fn overwrite(
        &self,
        space: &Keyspace,
        name: &str,
        key: &str,
        value: &[u8],
    ) -> Result<Option<u64>, KubernetesError> {
        for _ in 0..TURNS {
            let spec = RecordSpec::new(key, value.to_vec());
            let mut written = self.update(name, spec.clone(), None).await?;
            if written.is_none() {
                written = self.create(space, name, spec).await?;
            }
            if written.is_some() {
                return Ok(written);
            }
        }
        Ok(None)
    }

    async fn write(
        &self,
        space: &Keyspace,
        key: &str,
        value: Vec<u8>,
        expect: Expect,
    ) -> Result<Outcome, KubernetesError> {
        let name = record::name(space, key);
        let spec = || RecordSpec::new(key, value.clone());
        let written = match expect {
            Expect::Any => self.overwrite(space, &name, key, &value).await?,
            Expect::Absent => self.create(space, &name, spec()).await?,
            Expect::Revision(revision) => self.update(&name, spec(), Some(revision)).await?,
        };
        match written {
            Some(revision) => {
                self.learn(space, key, revision, Some(value));
                Ok(Outcome::Done(revision))
            }
            None if expect == Expect::Any => Err(KubernetesError::Contended(name)),
            None => Ok(Outcome::Conflict(self.read(space, key).await?)),
        }
    }

    async fn delete(
        &self,
        space: &Keyspace,
        key: &str,
        expect: Expect,
    ) -> Result<Outcome, KubernetesError> {
        let name = record::name(space, key);
        for _ in 0..TURNS {
            let revision = match expect {
                Expect::Revision(revision) => revision,
                Expect::Any | Expect::Absent => match self.read(space, key).await? {
                    None => return Ok(Outcome::Done(0)),
                    Some(there) if expect == Expect::Absent => {
                        return Ok(Outcome::Conflict(Some(there)));
                    }
                    Some(there) => there.revision,
                },
            };
            let parameters = DeleteParams::default().preconditions(Preconditions {
                resource_version: Some(revision.to_string()),
                uid: None,
            });
            let deleted = send("remove", &name, self.records.delete(&name, &parameters)).await?;
            if deleted.is_some() {
                self.learn(space, key, revision, None);
                return Ok(Outcome::Done(revision));
            }
            if expect != Expect::Any {
                return Ok(Outcome::Conflict(self.read(space, key).await?));
            }
            // Another writer was first.
        }
        Err(KubernetesError::Contended(name))
    }
}

#[async_trait]
impl StateStore for KubernetesStore {
    async fn get(&self, space: &Keyspace, key: &str) -> Result<Option<StateEntry>, StateError> {
        check_key(key)?;
        self.read(space, key).await.map_err(failed("get"))
    }

    async fn put(
        &self,
        space: &Keyspace,
        key: &str,
        value: Vec<u8>,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        check_key(key)?;
        check_value(&value)?;
        let written = self.write(space, key, value, expect).await;
        written.map_err(failed("put"))
    }

    async fn remove(
        &self,
        space: &Keyspace,
        key: &str,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        check_key(key)?;
        let removed = self.delete(space, key, expect).await;
        removed.map_err(failed("remove"))
    }

    async fn scan(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StateEntry>, StateError> {
        let cache = self.listed(space).await.map_err(failed("scan"))?;
        Ok(cache.index().page(prefix, after, limit))
    }

    async fn size(&self, space: &Keyspace) -> Result<u64, StateError> {
        let cache = self.listed(space).await.map_err(failed("size"))?;
        Ok(cache.index().bytes())
    }

    /// Nothing to wait for: a write was answered when it was durable in etcd.
    async fn sync(&self) -> Result<(), StateError> {
        Ok(())
    }
}

/// Sends one request for a record; none: the record does not exist, or is not as expected.
async fn send<T>(
    verb: &str,
    name: &str,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, KubernetesError> {
    let answer = answered(format!("{verb} BackendRecord {name}"), request).await;
    let rejection = answer.as_ref().err().and_then(KubernetesError::rejection);
    match rejection.map(|status| (status.code, &status.details)) {
        Some((409, _)) => Ok(None),
        // Only if it is about the object: if the kind or the namespace is missing, nothing is known about any record.
        Some((404, Some(about))) if about.name == name => Ok(None),
        Some((404, _)) => Err(KubernetesError::NoRecords),
        _ => answer.map(Some),
    }
}

fn failed(operation: &'static str) -> impl FnOnce(KubernetesError) -> StateError {
    move |error| {
        let message = error.rejection().map(|status| status.message.as_str());
        if message.is_some_and(is_full) {
            return StateError::Full;
        }
        StateError::Failed {
            operation,
            source: Box::new(error),
        }
    }
}

/// Whether the error is a lack of space: etcd's own limit, or a ResourceQuota. Neither has its own code.
fn is_full(message: &str) -> bool {
    message.contains("database space exceeded") || message.contains("exceeded quota")
}

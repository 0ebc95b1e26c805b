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
mod index;
mod record;

use crate::error::KubernetesError;
use async_trait::async_trait;
use cache::Cache;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Error};
pub(crate) use record::DRIVER as DRIVER_LABEL;
use record::{BackendRecord, RecordSpec};
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;
use wasmount_core::state::{
    Expect, Keyspace, Outcome, StateEntry, StateError, StateStore, check_key, check_value,
};

/// API version of the records.
pub(crate) const RECORD_API_VERSION: &str = "wasmount.io/v1alpha1";

/// The definition of their kind; an administrator applies it before a backend.
pub const RECORD_DEFINITION: &str = include_str!("state/backendrecords.yaml");

/// How long one request may take. 10 s: a call of the backend has 60 s by default, and asks several times.
const REQUEST: Duration = Duration::from_secs(10);

/// How long a caller waits for the first listing of a keyspace; the listing continues. 30 s: half of a call's time limit.
const LISTING: Duration = Duration::from_secs(30);

/// How often a write without an expectation is repeated because the record is created and deleted meanwhile. 8: each time another writer was first.
const TURNS: u32 = 8;

const GET: &str = "get";
const PUT: &str = "put";
const REMOVE: &str = "remove";
const SCAN: &str = "scan";
const SIZE: &str = "size";

/// A state store in a namespace of the API server.
pub struct KubernetesStore {
    records: Api<BackendRecord>,
    caches: Mutex<HashMap<Keyspace, Arc<Cache>>>,
    /// Prefix of the id of each write of this process.
    process: String,
    writes: AtomicU64,
}

/// The result of a request.
enum Answer<T> {
    Done(T),
    /// The object does not exist.
    Absent,
    /// It differs from what was expected.
    Otherwise,
}

impl KubernetesStore {
    /// Sends no request yet: the API server may not be reachable. Records are in `namespace`.
    pub fn new(client: Client, namespace: &str) -> Arc<Self> {
        Arc::new(Self {
            records: Api::namespaced_with(client, namespace, &record::resource()),
            caches: Mutex::default(),
            process: Uuid::new_v4().simple().to_string(),
            writes: AtomicU64::new(0),
        })
    }

    /// Makes all earlier writes of others visible, however late the watches are: they start again. Call it when this host takes over.
    pub fn forget(&self) {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.clear();
    }

    fn spec(&self, key: &str, value: Vec<u8>) -> RecordSpec {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        RecordSpec::new(key, value, format!("{}-{number}", self.process))
    }

    /// The cache of a keyspace, if it was requested before.
    fn known(&self, space: &Keyspace) -> Option<Arc<Cache>> {
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.get(space).cloned()
    }

    /// The cache of a keyspace, fully listed.
    async fn listed(
        &self,
        space: &Keyspace,
        operation: &'static str,
    ) -> Result<Arc<Cache>, StateError> {
        let cache = {
            let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
            let start = || Arc::new(Cache::start(self.records.clone(), space));
            Arc::clone(caches.entry(space.clone()).or_insert_with(start))
        };
        match timeout(LISTING, cache.listed()).await {
            Ok(()) => Ok(cache),
            Err(_) => Err(failed(operation)(KubernetesError::Silent {
                what: "list the records".to_owned(),
                seconds: LISTING.as_secs(),
            })),
        }
    }

    fn learn(&self, space: &Keyspace, key: &str, revision: u64, value: Option<&[u8]>) {
        if let Some(cache) = self.known(space) {
            let value = value.map(<[u8]>::to_vec);
            cache.index().learn(key.to_owned(), revision, value);
        }
    }

    async fn read(
        &self,
        space: &Keyspace,
        key: &str,
        operation: &'static str,
    ) -> Result<Option<StateEntry>, StateError> {
        let name = record::name(space, key);
        // Without a resource version the answer is etcd's newest.
        let Answer::Done(record) = ask(operation, &name, self.records.get(&name)).await? else {
            return Ok(None);
        };
        let entry = record::entry(space, record).map_err(failed(operation))?;
        if entry.key != key {
            return Err(failed(operation)(KubernetesError::ForeignRecord { name }));
        }
        Ok(Some(entry))
    }

    async fn create(
        &self,
        space: &Keyspace,
        name: &str,
        spec: RecordSpec,
    ) -> Result<Answer<u64>, StateError> {
        let (parameters, object) = (post(), record::object(space, name, spec));
        let created = ask(PUT, name, self.records.create(&parameters, &object)).await?;
        revision_of(created, |object| record::revision(&object.metadata))
    }

    /// Changes an existing record, at a revision if one is given.
    async fn update(
        &self,
        name: &str,
        spec: RecordSpec,
        expected: Option<u64>,
    ) -> Result<Answer<u64>, StateError> {
        let mut change = serde_json::json!({ "spec": spec });
        if let Some(revision) = expected {
            let metadata = serde_json::json!({ "resourceVersion": revision.to_string() });
            if let Some(change) = change.as_object_mut() {
                change.insert("metadata".to_owned(), metadata);
            }
        }
        let (parameters, patch) = (patch(), Patch::Merge(change));
        let request = self.records.patch_metadata(name, &parameters, &patch);
        let patched = ask(PUT, name, request).await?;
        revision_of(patched, |object| record::revision(&object.metadata))
    }

    /// Writes a record whether or not it exists.
    async fn overwrite(
        &self,
        space: &Keyspace,
        name: &str,
        key: &str,
        value: &[u8],
    ) -> Result<Answer<u64>, StateError> {
        for _ in 0..TURNS {
            let spec = self.spec(key, value.to_vec());
            match self.update(name, spec.clone(), None).await? {
                Answer::Absent => {}
                done_or_otherwise => return Ok(done_or_otherwise),
            }
            match self.create(space, name, spec).await? {
                Answer::Otherwise => {}
                done_or_absent => return Ok(done_or_absent),
            }
        }
        Ok(Answer::Otherwise)
    }

    async fn delete(&self, name: &str, revision: u64) -> Result<Answer<()>, StateError> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: Some(revision.to_string()),
                uid: None,
            }),
            ..DeleteParams::default()
        };
        let deleted = ask(REMOVE, name, self.records.delete(name, &parameters)).await?;
        Ok(match deleted {
            Answer::Done(_) => Answer::Done(()),
            Answer::Absent => Answer::Absent,
            Answer::Otherwise => Answer::Otherwise,
        })
    }
}

#[async_trait]
impl StateStore for KubernetesStore {
    async fn get(&self, space: &Keyspace, key: &str) -> Result<Option<StateEntry>, StateError> {
        check_key(key)?;
        self.read(space, key, GET).await
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
        let name = record::name(space, key);
        let answer = match expect {
            Expect::Any => self.overwrite(space, &name, key, &value).await?,
            Expect::Absent => {
                let spec = self.spec(key, value.clone());
                self.create(space, &name, spec).await?
            }
            Expect::Revision(revision) => {
                let spec = self.spec(key, value.clone());
                self.update(&name, spec, Some(revision)).await?
            }
        };
        match (answer, expect) {
            (Answer::Done(revision), _) => {
                self.learn(space, key, revision, Some(&value));
                Ok(Outcome::Done(revision))
            }
            (_, Expect::Any) => Err(failed(PUT)(KubernetesError::Contended { name })),
            (Answer::Absent | Answer::Otherwise, _) => {
                Ok(Outcome::Conflict(self.read(space, key, PUT).await?))
            }
        }
    }

    async fn remove(
        &self,
        space: &Keyspace,
        key: &str,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        check_key(key)?;
        let name = record::name(space, key);
        for _ in 0..TURNS {
            let revision = match expect {
                Expect::Revision(revision) => revision,
                Expect::Any | Expect::Absent => match self.read(space, key, REMOVE).await? {
                    None => return Ok(Outcome::Done(0)),
                    Some(there) if expect == Expect::Absent => {
                        return Ok(Outcome::Conflict(Some(there)));
                    }
                    Some(there) => there.revision,
                },
            };
            match (self.delete(&name, revision).await?, expect) {
                (Answer::Done(()), _) => {
                    self.learn(space, key, revision, None);
                    return Ok(Outcome::Done(revision));
                }
                (_, Expect::Revision(_)) => {
                    return Ok(Outcome::Conflict(self.read(space, key, REMOVE).await?));
                }
                // Another writer was first.
                (Answer::Absent | Answer::Otherwise, _) => {}
            }
        }
        Err(failed(REMOVE)(KubernetesError::Contended { name }))
    }

    async fn scan(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StateEntry>, StateError> {
        let cache = self.listed(space, SCAN).await?;
        Ok(cache.index().page(prefix, after, limit))
    }

    async fn size(&self, space: &Keyspace) -> Result<u64, StateError> {
        let cache = self.listed(space, SIZE).await?;
        Ok(cache.index().bytes())
    }

    /// Nothing to wait for: a write was answered when it was durable in etcd.
    async fn sync(&self) -> Result<(), StateError> {
        Ok(())
    }
}

/// Sends one request with a time limit, and interprets its answer for a record.
async fn ask<T>(
    operation: &'static str,
    name: &str,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<Answer<T>, StateError> {
    let what = || format!("{operation} BackendRecord {name}");
    match timeout(REQUEST, request).await {
        Ok(Ok(answer)) => Ok(Answer::Done(answer)),
        Ok(Err(Error::Api(status))) => match status.code {
            // Only if it is about the object: if the kind or the namespace is missing, nothing is known about any record.
            404 if status.details.as_ref().is_some_and(|it| it.name == name) => Ok(Answer::Absent),
            404 => Err(failed(operation)(KubernetesError::NoRecords)),
            409 => Ok(Answer::Otherwise),
            _ if is_full(&status.message) => Err(StateError::Full),
            _ => Err(failed(operation)(KubernetesError::api(what())(Error::Api(
                status,
            )))),
        },
        Ok(Err(error)) => Err(failed(operation)(KubernetesError::api(what())(error))),
        Err(_) => Err(failed(operation)(KubernetesError::Silent {
            what: what(),
            seconds: REQUEST.as_secs(),
        })),
    }
}

/// Whether the error is a lack of space: etcd's own limit, or a ResourceQuota. Neither has its own code.
fn is_full(message: &str) -> bool {
    ["database space exceeded", "exceeded quota"]
        .iter()
        .any(|word| message.contains(word))
}

fn revision_of<T>(
    answer: Answer<T>,
    revision: impl FnOnce(&T) -> Result<u64, KubernetesError>,
) -> Result<Answer<u64>, StateError> {
    Ok(match answer {
        Answer::Done(object) => Answer::Done(revision(&object).map_err(failed(PUT))?),
        Answer::Absent => Answer::Absent,
        Answer::Otherwise => Answer::Otherwise,
    })
}

fn post() -> PostParams {
    PostParams {
        field_manager: Some(crate::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn patch() -> PatchParams {
    PatchParams {
        field_manager: Some(crate::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn failed(operation: &'static str) -> impl FnOnce(KubernetesError) -> StateError {
    move |error| StateError::Failed {
        operation,
        source: Box::new(error),
    }
}

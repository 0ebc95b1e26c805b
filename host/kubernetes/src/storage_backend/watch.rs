//! The backends that are desired by objects.
//!
//! They are published as a state, not as a stream of changes: a slow receiver finds the newest state.

use super::object::{DesiredBackend, desired};
use super::object_cache::{self, Kept};
use super::rollout::effective::{HostIdentity, effective};
use super::rollout::state::plan;
use super::{BackendObject, RateLimit, backends};
use crate::error::watch_failure;
use crate::object_watch::watched;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, watch};
use wasmount_core::mutex::lock;

/// Objects of one page of the first listing: with objects of the largest size that is 75 MiB.
const LIST_PAGE: u32 = 50;

/// The desired backends by name; empty until the API server has listed them, or a list was read from the disk.
pub type DesiredBackends = BTreeMap<String, Arc<DesiredBackend>>;

/// Objects as they were received, by name.
pub(super) type Objects = BTreeMap<String, BackendObject>;

/// What this host serves of the objects: the last valid `spec` of each, by name, with the uid of the object.
pub(super) type Held = BTreeMap<String, (Option<String>, Value)>;

/// Labels by key.
type Labels = BTreeMap<String, String>;

/// The labels of the host's Node, as they change.
type LabelsStream = Pin<Box<dyn Stream<Item = Labels> + Send>>;

/// Watches the desired backends, and keeps a copy on disk.
pub struct StorageBackends {
    kept: PathBuf,
    state: Mutex<State>,
    desired: watch::Sender<DesiredBackends>,
    objects: watch::Sender<Arc<Objects>>,
    hosts: watch::Sender<u64>,
    changed: Notify,
}

struct State {
    host: HostIdentity,
    /// Of the host's Node, if they are known.
    labels: Option<Labels>,
    held: Held,
    there: Objects,
    /// Objects that the API server no longer has, and the host has not finished with.
    gone: Objects,
    /// The objects of a listing under way.
    listing: Objects,
    /// The API server has listed them, or the file had some.
    are_known: bool,
}

impl StorageBackends {
    /// Starts from the file `kept` in the data directory, which an earlier process of this host wrote. Blocks.
    pub fn open(kept: PathBuf, host: HostIdentity) -> Arc<Self> {
        let mut state = State {
            host,
            labels: None,
            held: Held::default(),
            there: Objects::default(),
            gone: Objects::default(),
            listing: Objects::default(),
            are_known: false,
        };
        match object_cache::read(&kept) {
            Ok(all) => {
                state.are_known = !all.is_empty();
                for Kept { gone, object } in all {
                    let list = match gone {
                        true => &mut state.gone,
                        false => &mut state.there,
                    };
                    list.insert(object.name_any(), object);
                }
            }
            Err(error) => {
                let path = kept.display().to_string();
                tracing::error!(%error, path, "the last known StorageBackends cannot be read: waiting for the API server");
            }
        }
        let opened = Self {
            kept,
            desired: watch::Sender::new(state.desired()),
            objects: watch::Sender::default(),
            hosts: watch::Sender::new(state.hosts()),
            changed: Notify::new(),
            state: Mutex::new(state),
        };
        Arc::new(opened)
    }

    /// The desired backends, now and later.
    pub fn desired(&self) -> watch::Receiver<DesiredBackends> {
        self.desired.subscribe()
    }

    /// Whether an empty list means that there are none. The first list of the API server changes [`StorageBackends::desired`] in any case.
    pub fn are_known(&self) -> bool {
        lock(&self.state).are_known
    }

    /// The rate limit for the number of hosts.
    pub fn rate_limit(&self) -> RateLimit {
        RateLimit(self.hosts.subscribe())
    }

    /// The host has finished with a deleted backend.
    pub fn forget(&self, name: &str, uid: &str) {
        let mut state = lock(&self.state);
        let gone = state.gone.get(name);
        if gone.is_some_and(|object| object.uid().as_deref() == Some(uid)) {
            state.gone.remove(name);
            self.publish(&mut state);
        }
    }

    /// The existing objects, for the host that writes their status.
    pub(super) fn objects(&self) -> watch::Receiver<Arc<Objects>> {
        self.objects.subscribe()
    }

    /// What this host serves of an object; none of one that it has not seen.
    pub(super) fn held(&self) -> Held {
        lock(&self.state).held.clone()
    }

    /// Watches the API server, and keeps a copy of the objects; never returns.
    pub async fn follow(&self, client: Client, selector: Option<&str>) {
        let mut config = watcher::Config::default().page_size(LIST_PAGE);
        if let Some(selector) = selector {
            config = config.labels(selector);
        }
        let api = Api::<BackendObject>::all_with(client.clone(), &backends());
        let events = watcher(api, config)
            .modify(|object| object.metadata.managed_fields = None)
            .default_backoff();
        let mut events = std::pin::pin!(events);
        let mut lost = false;
        // Only while steps select by labels: all hosts watch as long as they run.
        let mut labels: Option<LabelsStream> = None;
        loop {
            match (self.needs_labels(), &labels) {
                (true, None) => {
                    let node = lock(&self.state).host.name.clone();
                    labels = Some(own_labels(client.clone(), &node));
                }
                (false, Some(_)) => {
                    labels = None;
                    // They are old when a watch begins again.
                    lock(&self.state).labels = None;
                }
                _ => {}
            }
            tokio::select! {
                () = self.changed.notified() => self.keep().await,
                Some(labels) = next(&mut labels) => {
                    let mut state = lock(&self.state);
                    state.labels = Some(labels);
                    self.publish(&mut state);
                }
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        if std::mem::take(&mut lost) {
                            tracing::info!("StorageBackends are watched again");
                        }
                        self.take(event);
                    }
                    Some(Err(error)) => {
                        if !std::mem::replace(&mut lost, true) {
                            let reason = watch_failure(&error);
                            tracing::warn!(reason, "StorageBackends are not watched for now: what was seen last is served");
                        }
                    }
                    // The library's watches never end.
                    None => return std::future::pending().await,
                },
            }
        }
    }

    fn take(&self, event: Event<BackendObject>) {
        let mut state = lock(&self.state);
        let is_first = matches!(event, Event::InitDone) && !state.are_known;
        state.are_known |= is_first;
        if state.take(event) {
            self.publish(&mut state);
        }
        if is_first {
            self.desired.send_modify(|_| {});
        }
    }

    fn needs_labels(&self) -> bool {
        let state = lock(&self.state);
        let mut plans = state.there.values().filter_map(|it| plan(&it.spec));
        state.host.on_node && plans.any(|plan| plan.has_labels())
    }

    /// Publishes changes, and writes the copy.
    fn publish(&self, state: &mut State) {
        let desired = state.desired();
        let changed = *self.desired.borrow() != desired;
        if changed {
            self.desired.send_replace(desired);
            self.changed.notify_one();
        }
        self.objects.send_replace(Arc::new(state.there.clone()));
        self.hosts.send_replace(state.hosts());
    }

    async fn keep(&self) {
        let all: Vec<Kept> = {
            let state = lock(&self.state);
            let served = |it: &BackendObject| state.held_of(it).unwrap_or(&it.spec).clone();
            let there = state.there.values();
            let there = there.map(|it| Kept::new(it, &served(it), false));
            let gone = state.gone.values();
            let gone = gone.map(|it| Kept::new(it, &served(it), true));
            there.chain(gone).collect()
        };
        let path = self.kept.clone();
        let written = tokio::task::spawn_blocking(move || object_cache::write(&path, &all)).await;
        if let Ok(Err(error)) = written {
            let path = self.kept.display().to_string();
            tracing::error!(%error, path, "StorageBackends are not kept: a start without the API server will not know them");
        }
    }
}

impl State {
    /// Handles an event. Returns whether it can have changed anything.
    fn take(&mut self, event: Event<BackendObject>) -> bool {
        match event {
            Event::Init => {
                self.listing.clear();
                return false;
            }
            Event::InitApply(object) => {
                self.listing.insert(object.name_any(), object);
                return false;
            }
            Event::InitDone => {
                self.gone.append(&mut self.there);
                self.there = std::mem::take(&mut self.listing);
                // A new object of the same name replaces the old one.
                let there = &self.there;
                self.gone.retain(|name, _| !there.contains_key(name));
            }
            Event::Apply(object) => {
                self.gone.remove(&object.name_any());
                self.there.insert(object.name_any(), object);
            }
            Event::Delete(object) => {
                self.there.remove(&object.name_any());
                self.gone.insert(object.name_any(), object);
            }
        }
        true
    }

    /// What the host served last of this object.
    fn held_of(&self, object: &BackendObject) -> Option<&Value> {
        let (uid, spec) = self.held.get(&object.name_any())?;
        (*uid == object.uid()).then_some(spec)
    }

    /// What is to be served of an object now; a valid `spec` is held from then on.
    fn desired_of(&mut self, object: &BackendObject, there: bool) -> DesiredBackend {
        let held = self.held_of(object);
        let effective = effective(object, &self.host, self.labels.as_ref(), held);
        let served = BackendObject {
            spec: effective.spec,
            ..object.clone()
        };
        let mut backend = desired(&served, there);
        backend.rollout = effective.part;
        if backend.document.is_ok() {
            let held = (object.uid(), served.spec);
            self.held.insert(object.name_any(), held);
        }
        backend
    }

    /// Of several objects of one driver the oldest is used; the others get an error.
    fn desired(&mut self) -> DesiredBackends {
        // A deleted object is served until the host has finished with it, and precedes all others.
        let gone = self.gone.clone().into_values();
        let there = self.there.clone().into_values();
        let mut all = Vec::new();
        for (object, is_there) in gone.map(|it| (it, false)).chain(there.map(|it| (it, true))) {
            let created = object.creation_timestamp().filter(|_| is_there);
            let backend = self.desired_of(&object, is_there);
            all.push((created.map(|time| time.0), backend));
        }
        all.sort_by_key(|(created, backend)| (*created, backend.name.clone()));
        let names: BTreeSet<_> = all.iter().map(|(_, it)| it.name.clone()).collect();
        self.held.retain(|name, _| names.contains(name));
        let mut owners = BTreeMap::new();
        let mut backends = DesiredBackends::new();
        for (_, mut backend) in all {
            if let Ok(document) = &backend.document {
                let driver = document.driver_name.clone();
                let owner = owners.entry(driver).or_insert(backend.name.clone());
                if *owner != backend.name {
                    backend.document = Err(format!(
                        "spec.driverName: the driver {} is that of the StorageBackend {owner}, which is older",
                        document.driver_name
                    ));
                }
            }
            backends.insert(backend.name.clone(), Arc::new(backend));
        }
        backends
    }

    /// The largest number of hosts in any status.
    fn hosts(&self) -> u64 {
        let total =
            |object: &BackendObject| object.status.as_ref()?.pointer("/hosts/total")?.as_u64();
        self.there.values().filter_map(total).max().unwrap_or(0)
    }
}

/// The labels of a Node; none of a host without one.
fn own_labels(client: Client, node: &str) -> LabelsStream {
    let nodes = watched(Api::<Node>::all(client), node);
    let labels = |node: Option<Node>| node.map_or_else(Labels::new, |it| it.labels().clone());
    Box::pin(nodes.filter_map(move |node| ready(node.ok().map(labels))))
}

/// The next labels; never any without a stream.
async fn next(labels: &mut Option<LabelsStream>) -> Option<Labels> {
    match labels {
        Some(labels) => labels.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;

//! The backends that are desired by objects.
//!
//! They are published as a state, not as a stream of changes: a slow receiver finds the newest state.

use super::kept::{self, Kept};
use super::object::{WantedBackend, wanted};
use super::{BackendObject, RateLimit, backends};
use crate::error::{causes, words};
use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// Objects of one page of the first listing: with objects of the largest size that is 75 MiB.
const LIST_PAGE: u32 = 50;

/// Backends by name, and whether the list is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// The API server has listed them, or a list was read from the disk.
    pub known: bool,
    /// By name.
    pub backends: BTreeMap<String, Arc<WantedBackend>>,
}

/// Objects as they were received, by name.
pub(super) type Objects = BTreeMap<String, BackendObject>;

/// Watches the desired backends, and keeps a copy on disk.
pub struct StorageBackends {
    kept: PathBuf,
    state: Mutex<State>,
    wanted: watch::Sender<Wanted>,
    objects: watch::Sender<Arc<Objects>>,
    hosts: watch::Sender<u64>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    known: bool,
    there: Objects,
    /// Objects that the API server no longer has, and the host has not finished with.
    gone: Objects,
    /// The objects of a listing under way.
    listing: Option<Objects>,
}

impl StorageBackends {
    /// Starts from the file `kept` in the data directory, which an earlier process wrote. Blocks.
    pub fn open(kept: PathBuf) -> Arc<Self> {
        let mut state = State::default();
        match kept::read(&kept) {
            Ok(all) => {
                state.known = !all.is_empty();
                for one in all {
                    let gone = one.gone;
                    let object = one.into_object();
                    let name = object.metadata.name.clone().unwrap_or_default();
                    let list = if gone {
                        &mut state.gone
                    } else {
                        &mut state.there
                    };
                    list.insert(name, object);
                }
            }
            Err(error) => {
                let path = kept.display().to_string();
                tracing::error!(%error, path, "the last known StorageBackends cannot be read: waiting for the API server");
            }
        }
        let opened = Self {
            kept,
            wanted: watch::Sender::new(state.wanted()),
            objects: watch::Sender::default(),
            hosts: watch::Sender::new(state.hosts()),
            changed: Notify::new(),
            state: Mutex::new(state),
        };
        Arc::new(opened)
    }

    /// The desired backends, now and later.
    pub fn wanted(&self) -> watch::Receiver<Wanted> {
        self.wanted.subscribe()
    }

    /// The rate limit for the number of hosts.
    pub fn rate_limit(&self) -> RateLimit {
        RateLimit::of(self.hosts.subscribe())
    }

    /// The host has finished with a deleted backend.
    pub fn forget(&self, name: &str, uid: &str) {
        let mut state = self.lock();
        let is_it = |object: &BackendObject| object.metadata.uid.as_deref() == Some(uid);
        if state.gone.get(name).is_some_and(is_it) {
            state.gone.remove(name);
            self.publish(&state);
        }
    }

    /// The existing objects, for the host that writes their status.
    pub(super) fn objects(&self) -> watch::Receiver<Arc<Objects>> {
        self.objects.subscribe()
    }

    /// Watches the API server, and keeps a copy of the objects; never returns.
    pub async fn follow(&self, client: Client, selector: Option<&str>) {
        let mut config = watcher::Config::default().page_size(LIST_PAGE);
        if let Some(selector) = selector {
            config = config.labels(selector);
        }
        let api = Api::<BackendObject>::all_with(client, &backends());
        let events = watcher(api, config)
            .modify(|object| object.metadata.managed_fields = None)
            .default_backoff();
        let mut events = std::pin::pin!(events);
        let mut lost = false;
        loop {
            tokio::select! {
                () = self.changed.notified() => self.keep().await,
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        if std::mem::take(&mut lost) {
                            tracing::info!("StorageBackends are watched again");
                        }
                        self.take(event);
                    }
                    Some(Err(error)) => {
                        if !std::mem::replace(&mut lost, true) {
                            let reason = reason(&error);
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
        let mut state = self.lock();
        if state.take(event) {
            self.publish(&state);
        }
    }

    /// Publishes changes, and writes the copy.
    fn publish(&self, state: &State) {
        let new = state.wanted();
        let changed = self.wanted.send_if_modified(|wanted| {
            let changes = *wanted != new;
            if changes {
                *wanted = new;
            }
            changes
        });
        if changed {
            self.changed.notify_one();
        }
        self.objects.send_replace(Arc::new(state.there.clone()));
        let hosts = state.hosts();
        self.hosts
            .send_if_modified(|known| std::mem::replace(known, hosts) != hosts);
    }

    async fn keep(&self) {
        let all: Vec<Kept> = {
            let state = self.lock();
            let there = state.there.values().map(|it| Kept::new(it, false));
            let gone = state.gone.values().map(|it| Kept::new(it, true));
            there.chain(gone).collect()
        };
        let path = self.kept.clone();
        let written = tokio::task::spawn_blocking(move || kept::write(&path, &all)).await;
        if let Ok(Err(error)) = written {
            let path = self.kept.display().to_string();
            tracing::error!(%error, path, "StorageBackends are not kept: a start without the API server will not know them");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Handles an event. Returns whether it can have changed anything.
    fn take(&mut self, event: Event<BackendObject>) -> bool {
        let name = |object: &BackendObject| object.metadata.name.clone().unwrap_or_default();
        match event {
            Event::Init => {
                self.listing = Some(Objects::new());
                false
            }
            Event::InitApply(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(name(&object), object);
                }
                false
            }
            Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                let before = std::mem::replace(&mut self.there, listed);
                for (name, object) in before {
                    if !self.there.contains_key(&name) {
                        self.gone.insert(name, object);
                    }
                }
                // A new object of the same name replaces the old one.
                let there = &self.there;
                self.gone.retain(|name, _| !there.contains_key(name));
                self.known = true;
                true
            }
            Event::Apply(object) => {
                self.gone.remove(&name(&object));
                self.there.insert(name(&object), object);
                true
            }
            Event::Delete(object) => {
                self.there.remove(&name(&object));
                self.gone.insert(name(&object), object);
                true
            }
        }
    }

    fn wanted(&self) -> Wanted {
        let there = self.there.values().map(|object| wanted(object, true));
        let gone = self.gone.values().map(|object| wanted(object, false));
        let mut backends: Vec<WantedBackend> = there.chain(gone).collect();
        self.one_of_a_driver(&mut backends);
        Wanted {
            known: self.known,
            backends: backends
                .into_iter()
                .map(|it| (it.name.clone(), Arc::new(it)))
                .collect(),
        }
    }

    /// Of several objects of one driver the oldest is used; the others get an error.
    fn one_of_a_driver(&self, backends: &mut [WantedBackend]) {
        let mut owners = BTreeMap::new();
        backends.sort_by_key(|it| (self.age(it), it.name.clone()));
        for backend in backends {
            let Ok(document) = &backend.document else {
                continue;
            };
            let driver = document.driver_name.clone();
            match owners.get(&driver) {
                None => drop(owners.insert(driver, backend.name.clone())),
                Some(owner) => {
                    backend.document = Err(format!(
                        "spec.driverName: the driver {driver} is that of the StorageBackend {owner}, which is older"
                    ));
                }
            }
        }
    }

    /// A deleted object is served until the host has finished with it, and precedes all others.
    fn age(&self, backend: &WantedBackend) -> Option<Timestamp> {
        if !backend.there {
            return None;
        }
        let object = self.there.get(&backend.name)?;
        let created = object.metadata.creation_timestamp.as_ref();
        created.map(|time| time.0)
    }

    /// The largest number of hosts in any status.
    fn hosts(&self) -> u64 {
        let total =
            |object: &BackendObject| object.status.as_ref()?.pointer("/hosts/total")?.as_u64();
        self.there.values().filter_map(total).max().unwrap_or(0)
    }
}

pub(super) fn reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) if status.code == 404 => {
                "the API server does not know them: apply their definitions (`wasmount manifests --crd`)"
                    .to_owned()
            }
            other => words(other),
        },
        other => causes(other),
    }
}

#[cfg(test)]
mod tests;

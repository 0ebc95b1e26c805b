//! Reconciles this host's backends with the StorageBackend objects.
//!
//! It reads the whole desired state each time, so nothing is lost when changes arrive faster than they are applied, and failed changes are tried
//! again with it.

use super::super::backends::{ApplyError, Backends, Removal, RemoveError};
use super::standing::{Known, report};
use crate::fault::chain;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use wasmount_core::document::StorageBackend;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::storage_backend::{
    BackendReport, Leaving, Phase, StorageBackends, WantedBackend,
};
use wasmount_versions::{Desired, DesiredFrom};

/// Between two attempts at a failed change, and between two looks at volumes that a backend waits for. 5 s: a pod is gone as soon.
const AGAIN: Duration = Duration::from_secs(5);

/// The state of the reconciler.
pub(super) struct Converging {
    backends: Arc<Backends>,
    objects: Arc<StorageBackends>,
    reports: watch::Sender<BTreeMap<String, BackendReport>>,
    /// By the name of the object.
    held: BTreeMap<String, Held>,
}

/// What this host has applied for one object.
struct Held {
    uid: String,
    /// The backend that serves for it.
    applied: Option<Applied>,
    /// The obstacle, or that it is removed.
    known: Option<Known>,
}

struct Applied {
    driver: DriverName,
    document: Box<StorageBackend>,
    generation: i64,
}

impl Converging {
    pub(super) fn new(
        backends: Arc<Backends>,
        objects: Arc<StorageBackends>,
        reports: watch::Sender<BTreeMap<String, BackendReport>>,
    ) -> Self {
        Self {
            backends,
            objects,
            reports,
            held: BTreeMap::new(),
        }
    }

    /// Never returns.
    pub(super) async fn run(mut self) {
        let mut wanted = self.objects.wanted();
        let mut changes = self.backends.changes();
        loop {
            let now = wanted.borrow_and_update().clone();
            changes.borrow_and_update();
            for backend in now.values() {
                self.one(backend).await;
            }
            self.held.retain(|name, _| now.contains_key(name));
            self.tell(&now);
            let unfinished = self.held.values().any(Held::is_unfinished);
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                // With these, only the report changes.
                changed = changes.changed() => if changed.is_err() { return },
                () = sleep(AGAIN), if unfinished => {}
            }
        }
    }

    async fn one(&mut self, wanted: &WantedBackend) {
        let mut held = self.held.remove(&wanted.name).unwrap_or(Held {
            uid: wanted.uid.clone(),
            applied: None,
            known: None,
        });
        if held.uid != wanted.uid {
            self.another(&mut held, wanted).await;
        }
        // Its removal may have been pending, and the object was created again before its last volume was unpublished.
        if wanted.leaving.is_none()
            && held.uid == wanted.uid
            && let Some(applied) = &held.applied
        {
            self.backends.stay(&applied.driver);
        }
        let known = match (wanted.leaving, &wanted.document) {
            (Some(leaving), document) => {
                let document = document.as_deref().ok();
                self.leave(&mut held, wanted, leaving, document).await
            }
            (None, Err(reason)) => Some(Known::trouble(Phase::Invalid, reason)),
            (None, Ok(document)) => self.serve(&mut held, wanted, document).await,
        };
        self.note(&mut held, wanted, known);
        if held.phase() == Some(Phase::Removed) && !wanted.there {
            self.objects.forget(&wanted.name, &wanted.uid);
            return;
        }
        self.held.insert(wanted.name.clone(), held);
    }

    /// Another object has taken the name. The same driver is kept; a different driver is removed.
    async fn another(&self, held: &mut Held, wanted: &WantedBackend) {
        let document = wanted.document.as_ref().ok();
        let is_other =
            |it: &&Applied| document.is_none_or(|document| document.driver_name != it.driver);
        held.known = None;
        if let Some(applied) = held.applied.as_ref().filter(is_other) {
            let removed = self.backends.remove(&applied.driver, Removal::WhenUnused);
            if removed.await.is_err() {
                return;
            }
            held.applied = None;
        }
        held.uid = wanted.uid.clone();
    }

    /// Serves a document; returns the obstacle.
    async fn serve(
        &self,
        held: &mut Held,
        wanted: &WantedBackend,
        document: &StorageBackend,
    ) -> Option<Known> {
        let applied = held.applied.as_mut();
        if let Some(applied) = applied.filter(|it| *it.document == *document) {
            applied.generation = wanted.generation;
            return None;
        }
        let desired = Desired {
            document: document.clone(),
            // All paths in an object are absolute.
            folder: PathBuf::from("/"),
            from: DesiredFrom::Object(wanted.name.clone()),
        };
        match self.backends.apply(desired).await {
            Ok(()) => {
                held.applied = Some(Applied {
                    driver: document.driver_name.clone(),
                    document: Box::new(document.clone()),
                    generation: wanted.generation,
                });
                None
            }
            Err(error @ ApplyError::Taken { .. }) => {
                Some(Known::trouble(Phase::Taken, chain(&error)))
            }
            Err(error) => Some(Known::trouble(Phase::Refused, chain(&error))),
        }
    }

    /// Removes a backend, as far as it can be now; returns what is known of the removal.
    async fn leave(
        &self,
        held: &mut Held,
        wanted: &WantedBackend,
        leaving: Leaving,
        document: Option<&StorageBackend>,
    ) -> Option<Known> {
        if held.phase() == Some(Phase::Removed) {
            return held.known.clone();
        }
        // After a restart: a volume of it may still be staged, and only a driver that serves can be asked to tear it down.
        if held.applied.is_none()
            && let Some(document) = document
        {
            let known = self.serve(held, wanted, document).await;
            // Until it can be served, it is unknown whether it is unused.
            if known.as_ref().is_some_and(|it| it.phase == Phase::Refused) {
                return known;
            }
        }
        let Some(applied) = &held.applied else {
            // It never served here, or another object owns its driver.
            return Some(Known::removed());
        };
        let removal = match leaving {
            Leaving::WhenUnused => Removal::WhenUnused,
            Leaving::AtOnce => Removal::Forced,
        };
        Some(match self.backends.remove(&applied.driver, removal).await {
            Ok(()) | Err(RemoveError::Unknown { .. }) => {
                held.applied = None;
                Known::removed()
            }
            Err(error) => {
                let volumes = match &error {
                    RemoveError::StillStaged { volumes, .. } => volumes.len() as u64,
                    _ => 0,
                };
                Known {
                    volumes,
                    ..Known::trouble(Phase::Removing, chain(&error))
                }
            }
        })
    }

    /// Records the state; logs it once.
    fn note(&self, held: &mut Held, wanted: &WantedBackend, known: Option<Known>) {
        if held.known == known {
            return;
        }
        let name = &wanted.name;
        let reason = known.as_ref().and_then(|it| it.reason.clone());
        if let Some(reason) = &reason {
            tracing::warn!(object = name, reason, "StorageBackend ignored");
        }
        if let Some(applied) = &held.applied {
            self.backends.set_trouble(&applied.driver, reason);
        }
        held.known = known;
    }

    fn tell(&self, wanted: &BTreeMap<String, Arc<WantedBackend>>) {
        let there = wanted.values().filter(|it| it.there);
        let reports = there.filter_map(|it| {
            let held = self.held.get(&it.name)?;
            let applied = held.applied.as_ref();
            let seen = applied.and_then(|it| self.backends.seen(&it.driver));
            let status = seen.map(|seen| seen.reconciler.status());
            let generation = match (&held.known, applied) {
                (None, Some(applied)) => applied.generation,
                // Observed, but not served.
                _ => it.generation,
            };
            let told = report(&it.uid, generation, held.known.as_ref(), status.as_ref());
            Some((it.name.clone(), told))
        });
        let reports: BTreeMap<_, _> = reports.collect();
        self.reports.send_if_modified(|told| {
            let changes = *told != reports;
            *told = reports;
            changes
        });
    }
}

impl Held {
    fn phase(&self) -> Option<Phase> {
        Some(self.known.as_ref()?.phase)
    }

    /// Whether it must be tried again without a further change.
    fn is_unfinished(&self) -> bool {
        matches!(
            self.phase(),
            Some(Phase::Removing | Phase::Refused | Phase::Taken)
        )
    }
}

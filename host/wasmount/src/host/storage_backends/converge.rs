//! Reconciles this host's backends with the StorageBackend objects.
//!
//! It reads the whole desired state each time, so nothing is lost when changes arrive faster than they are applied, and failed changes are tried
//! again with it.

use super::super::backends::{ApplyError, Backends, Removal, RemoveError};
use super::observed::{Known, report};
use crate::readiness::UNREAD;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use wasmount_core::document::StorageBackend;
use wasmount_core::names::DriverName;
use wasmount_core::text::chain;
use wasmount_kubernetes::storage_backend::{
    BackendReport, DesiredBackend, Leaving, Phase, RolloutPart, StorageBackends,
};
use wasmount_versions::{Desired, DesiredFrom};

/// Between two attempts at a failed change, and between two checks of volumes that a backend waits for. 5 s: a pod is gone as soon.
const AGAIN: Duration = Duration::from_secs(5);

/// The state of the reconciler.
pub(super) struct Converging {
    backends: Arc<Backends>,
    objects: Arc<StorageBackends>,
    reports: watch::Sender<BTreeMap<String, BackendReport>>,
    /// By the name of the object.
    states: BTreeMap<String, ObjectState>,
}

/// What this host has applied for one object.
struct ObjectState {
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
    rollout: Option<RolloutPart>,
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
            states: BTreeMap::new(),
        }
    }

    /// Never returns.
    pub(super) async fn run(mut self) {
        let mut desired = self.objects.desired();
        let mut changes = self.backends.changes();
        let readiness = self.backends.common().readiness.clone();
        loop {
            let are_known = self.objects.are_known();
            let now = desired.borrow_and_update().clone();
            changes.borrow_and_update();
            for backend in now.values() {
                self.one(backend).await;
            }
            self.states.retain(|name, _| now.contains_key(name));
            self.publish(&now);
            readiness.set_objects(match are_known {
                true => self.trouble(),
                false => Some(UNREAD.to_owned()),
            });
            let unfinished = self.states.values().any(ObjectState::is_unfinished);
            tokio::select! {
                changed = desired.changed() => if changed.is_err() { return },
                // With these, only the report changes.
                changed = changes.changed() => if changed.is_err() { return },
                () = sleep(AGAIN), if unfinished => {}
            }
        }
    }

    /// Why an object is not served.
    fn trouble(&self) -> Option<String> {
        let mut all = self.states.iter();
        all.find_map(|(name, state)| {
            let reason = state.known.as_ref()?.reason.as_deref()?;
            Some(format!("{name} is not served: {reason}"))
        })
    }

    async fn one(&mut self, object: &DesiredBackend) {
        let mut state = self.states.remove(&object.name).unwrap_or(ObjectState {
            uid: object.uid.clone(),
            applied: None,
            known: None,
        });
        if state.uid != object.uid {
            self.another(&mut state, object).await;
        }
        // Its removal may have been pending, and the object was created again before its last volume was unpublished.
        if object.leaving.is_none()
            && state.uid == object.uid
            && let Some(applied) = &state.applied
        {
            self.backends.stay(&applied.driver);
        }
        let known = match (object.leaving, &object.document) {
            (Some(leaving), document) => {
                let document = document.as_deref().ok();
                self.leave(&mut state, object, leaving, document).await
            }
            (None, Err(reason)) => Some(Known::trouble(Phase::Invalid, reason)),
            (None, Ok(document)) => self.serve(&mut state, object, document).await,
        };
        self.note(&mut state, object, known);
        if state.phase() == Some(Phase::Removed) && !object.there {
            self.objects.forget(&object.name, &object.uid);
            return;
        }
        self.states.insert(object.name.clone(), state);
    }

    /// Another object has taken the name. The same driver is kept; a different driver is removed.
    async fn another(&self, state: &mut ObjectState, object: &DesiredBackend) {
        let document = object.document.as_ref().ok();
        let is_other =
            |it: &&Applied| document.is_none_or(|document| document.driver_name != it.driver);
        state.known = None;
        if let Some(applied) = state.applied.as_ref().filter(is_other) {
            let removed = self.backends.remove(&applied.driver, Removal::WhenUnused);
            if removed.await.is_err() {
                return;
            }
            state.applied = None;
        }
        state.uid = object.uid.clone();
    }

    /// Serves a document; returns the obstacle.
    async fn serve(
        &self,
        state: &mut ObjectState,
        object: &DesiredBackend,
        document: &StorageBackend,
    ) -> Option<Known> {
        let applied = state.applied.as_mut();
        if let Some(applied) = applied.filter(|it| *it.document == *document) {
            applied.generation = object.generation;
            applied.rollout.clone_from(&object.rollout);
            return None;
        }
        let desired = Desired {
            document: document.clone(),
            // All paths in an object are absolute.
            folder: PathBuf::from("/"),
            from: DesiredFrom::Object(object.name.clone()),
        };
        match self.backends.apply(desired).await {
            Ok(()) => {
                state.applied = Some(Applied {
                    driver: document.driver_name.clone(),
                    document: Box::new(document.clone()),
                    generation: object.generation,
                    rollout: object.rollout.clone(),
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
        state: &mut ObjectState,
        object: &DesiredBackend,
        leaving: Leaving,
        document: Option<&StorageBackend>,
    ) -> Option<Known> {
        if state.phase() == Some(Phase::Removed) {
            return state.known.clone();
        }
        // After a restart: a volume of it may still be staged, and only a driver that serves can tear it down.
        if state.applied.is_none()
            && let Some(document) = document
        {
            let known = self.serve(state, object, document).await;
            // Until it can be served, it is unknown whether it is unused.
            if known.as_ref().is_some_and(|it| it.phase == Phase::Refused) {
                return known;
            }
        }
        let Some(applied) = &state.applied else {
            // It never served here, or another object owns its driver.
            return Some(Known::removed());
        };
        let removal = match leaving {
            Leaving::WhenUnused => Removal::WhenUnused,
            Leaving::AtOnce => Removal::Forced,
        };
        Some(match self.backends.remove(&applied.driver, removal).await {
            Ok(()) | Err(RemoveError::Unknown { .. }) => {
                state.applied = None;
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
    fn note(&self, state: &mut ObjectState, object: &DesiredBackend, known: Option<Known>) {
        if state.known == known {
            return;
        }
        let name = &object.name;
        let reason = known.as_ref().and_then(|it| it.reason.clone());
        if let Some(reason) = &reason {
            tracing::warn!(object = name, reason, "StorageBackend ignored");
        }
        if let Some(applied) = &state.applied {
            self.backends.set_trouble(&applied.driver, reason);
        }
        state.known = known;
    }

    fn publish(&self, objects: &BTreeMap<String, Arc<DesiredBackend>>) {
        let there = objects.values().filter(|it| it.there);
        let reports = there.filter_map(|it| {
            let state = self.states.get(&it.name)?;
            let applied = state.applied.as_ref();
            let seen = applied.and_then(|it| self.backends.seen(&it.driver));
            let status = seen.map(|seen| seen.reconciler.status());
            let (generation, rollout) = match (&state.known, applied) {
                (None, Some(applied)) => (applied.generation, &applied.rollout),
                // Observed, but not served.
                _ => (it.generation, &it.rollout),
            };
            let backend_report = BackendReport {
                rollout: rollout.clone(),
                ..report(&it.uid, generation, state.known.as_ref(), status.as_ref())
            };
            Some((it.name.clone(), backend_report))
        });
        let reports: BTreeMap<_, _> = reports.collect();
        self.reports.send_if_modified(|last_reports| {
            let changes = *last_reports != reports;
            *last_reports = reports;
            changes
        });
    }
}

impl ObjectState {
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

//! Kubernetes events, as `kubectl describe` shows them.
//!
//! The library's recorder counts equal events in one object. It ignores the note when it compares events, and keeps the first note. Each note has its
//! own recorder, so that the message of one driver does not replace that of another on the same Node. Callers choose the reasons.

use crate::FIELD_MANAGER;
use crate::request::answered;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Longest note that the API server accepts, in bytes (events.k8s.io/v1 validation, `noteLengthLimit`).
const NOTE_BYTES: usize = 1024;
/// Marks where a note was cut.
const CUT: &str = "…";
/// How long an event with the same note is counted with the last one. 6 min: the recorder's own (`CACHE_TTL`).
const COUNTED: Duration = Duration::from_secs(6 * 60);

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum About {
    /// A node; its events are in the namespace `default`.
    Node {
        /// Its name.
        name: String,
    },
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid: an event must not refer to another pod of that name.
        uid: String,
    },
    /// A PersistentVolumeClaim.
    Claim {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid, if it is known.
        uid: Option<String>,
    },
    /// A VolumeSnapshot.
    Snapshot {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid, if it is known.
        uid: Option<String>,
    },
    /// A CSIDriver.
    Driver {
        /// Its name.
        name: String,
    },
}

/// Writes events, if there is an API server.
#[derive(Clone)]
pub struct Events(Option<Arc<Recorders>>);

struct Recorders {
    client: Client,
    reporter: Reporter,
    /// With the time of the last event.
    by_note: Mutex<HashMap<String, (Recorder, Instant)>>,
}

impl About {
    fn reference(&self) -> ObjectReference {
        let (kind, namespace, name, uid) = match self {
            // In kubelet's own events of a node the uid is the node's name, and `kubectl describe node` searches for both.
            About::Node { name } => ("Node", None, name, Some(name)),
            About::Pod {
                namespace,
                name,
                uid,
            } => ("Pod", Some(namespace), name, Some(uid)),
            About::Claim {
                namespace,
                name,
                uid,
            } => ("PersistentVolumeClaim", Some(namespace), name, uid.as_ref()),
            About::Snapshot {
                namespace,
                name,
                uid,
            } => ("VolumeSnapshot", Some(namespace), name, uid.as_ref()),
            About::Driver { name } => ("CSIDriver", None, name, None),
        };
        let api = match self {
            About::Snapshot { .. } => "snapshot.storage.k8s.io/v1",
            About::Driver { .. } => "storage.k8s.io/v1",
            _ => "v1",
        };
        ObjectReference {
            api_version: Some(api.to_owned()),
            kind: Some(kind.to_owned()),
            namespace: namespace.cloned(),
            name: Some(name.clone()),
            uid: uid.cloned(),
            ..ObjectReference::default()
        }
    }
}

impl Events {
    /// `instance` identifies the reporting host: the node's name, or the pod's.
    pub fn new(client: Option<Client>, instance: String) -> Self {
        Self(client.map(|client| {
            Arc::new(Recorders {
                client,
                reporter: Reporter {
                    controller: FIELD_MANAGER.to_owned(),
                    instance: Some(instance),
                },
                by_note: Mutex::default(),
            })
        }))
    }

    /// Writes a warning; returns whether it was written. `reason` is one word in CamelCase, `action` the operation, `note` a sentence for a person.
    pub async fn warn(&self, about: &About, reason: &str, action: &str, note: String) -> bool {
        self.publish(EventType::Warning, about, reason, action, note)
            .await
    }

    /// Writes that a problem is resolved; returns whether it was written.
    pub async fn inform(&self, about: &About, reason: &str, action: &str, note: String) -> bool {
        self.publish(EventType::Normal, about, reason, action, note)
            .await
    }

    async fn publish(
        &self,
        type_: EventType,
        about: &About,
        reason: &str,
        action: &str,
        note: String,
    ) -> bool {
        let Some(recorders) = &self.0 else {
            return false;
        };
        let note = within_api(note);
        let recorder = recorders.of(&note);
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        let reference = about.reference();
        let written = recorder.publish(&event, &reference);
        if let Err(error) = answered("write an event".to_owned(), written).await {
            let error = error.in_words();
            tracing::warn!(error, reason, ?about, "an event was not written");
            return false;
        }
        true
    }
}

impl Recorders {
    fn of(&self, note: &str) -> Recorder {
        let now = Instant::now();
        let mut all = self.by_note.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, said)| now.duration_since(*said) < COUNTED);
        let new = || Recorder::new(self.client.clone(), self.reporter.clone());
        let (recorder, said) = all.entry(note.to_owned()).or_insert_with(|| (new(), now));
        *said = now;
        recorder.clone()
    }
}

/// A note that the API server accepts.
fn within_api(mut note: String) -> String {
    if note.len() > NOTE_BYTES {
        note.truncate(note.floor_char_boundary(NOTE_BYTES - CUT.len()));
        note.push_str(CUT);
    }
    note
}

#[cfg(test)]
mod tests;

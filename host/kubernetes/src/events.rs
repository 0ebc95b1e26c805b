//! Events: what a person finds by `kubectl describe`.
//!
//! Equal events are counted in one object by the library's recorder. It takes two for equal whatever their notes, and keeps the first note: so that
//! no driver's words are lost behind another's on the same Node, each note has a recorder of its own. It knows no reason; those who say something
//! name it.

use crate::FIELD_MANAGER;
use crate::request::answered;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Longest note that the API server takes, in bytes (events.k8s.io/v1 validation, `noteLengthLimit`).
const NOTE_BYTES: usize = 1024;
/// Where a note was cut.
const CUT: &str = "…";
/// How long after the last time an event of the same note is counted with it. 6 min: the recorder's own (`CACHE_TTL`).
const COUNTED: Duration = Duration::from_secs(6 * 60);

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum About {
    /// A node; its events lie in the namespace `default`.
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
        /// Its uid: another pod of that name is not meant.
        uid: String,
    },
    /// A PersistentVolumeClaim.
    Claim {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid, where it is known.
        uid: Option<String>,
    },
    /// A VolumeSnapshot.
    Snapshot {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid, where it is known.
        uid: Option<String>,
    },
    /// A CSIDriver.
    Driver {
        /// Its name.
        name: String,
    },
}

/// Writes events, where there is an API server.
#[derive(Clone)]
pub struct Events(Option<Arc<Recorders>>);

struct Recorders {
    client: Client,
    reporter: Reporter,
    /// With when it was said last.
    by_note: Mutex<HashMap<String, (Recorder, Instant)>>,
}

impl About {
    fn reference(&self) -> ObjectReference {
        let (kind, namespace, name, uid) = match self {
            // kubelet's own events of a node have its name for its uid, and `kubectl describe node` asks for both.
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
    /// `instance` tells apart the hosts that report: the node's name, or the pod's.
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

    /// Says that something is wrong; whether it was written: `reason` is one word in CamelCase, `action` what was tried, `note` a sentence for a person.
    pub async fn warn(&self, about: &About, reason: &str, action: &str, note: String) -> bool {
        self.publish(EventType::Warning, about, reason, action, note)
            .await
    }

    /// Says that something is as it should be, again; whether it was written.
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

/// What the API server takes of a note.
fn within_api(mut note: String) -> String {
    if note.len() > NOTE_BYTES {
        note.truncate(note.floor_char_boundary(NOTE_BYTES - CUT.len()));
        note.push_str(CUT);
    }
    note
}

#[cfg(test)]
mod tests;

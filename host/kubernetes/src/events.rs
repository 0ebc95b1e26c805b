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
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::mutex::lock;
use wasmount_core::text::shortened;

/// Longest note, in bytes: with the mark of a cut no more than the API server accepts (events.k8s.io/v1 validation, `noteLengthLimit`).
const NOTE_BYTES: usize = 1024 - '…'.len_utf8();
/// How long an event with the same note is counted with the last one. 6 min: the recorder's own (`CACHE_TTL`).
const COUNTED: Duration = Duration::from_secs(6 * 60);

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct About {
    api_version: &'static str,
    kind: &'static str,
    /// None: it is in no namespace; its events are in the namespace `default`.
    namespace: Option<String>,
    name: String,
    /// None: it is not known.
    uid: Option<String>,
}

/// Writes events, if there is an API server.
#[derive(Clone)]
pub struct Events {
    client: Option<Client>,
    reporter: Reporter,
    /// With the time of the last event.
    by_note: Arc<Mutex<HashMap<String, (Recorder, Instant)>>>,
}

impl About {
    /// A Node. In kubelet's own events of a node the uid is the node's name, and `kubectl describe node` searches for both.
    pub fn node(name: &str) -> Self {
        Self::object("v1", "Node", None, name.to_owned(), Some(name.to_owned()))
    }

    /// A CSIDriver.
    pub fn driver(name: &str) -> Self {
        Self::object(
            "storage.k8s.io/v1",
            "CSIDriver",
            None,
            name.to_owned(),
            None,
        )
    }

    /// Any object.
    pub(crate) fn object(
        api_version: &'static str,
        kind: &'static str,
        namespace: Option<String>,
        name: String,
        uid: Option<String>,
    ) -> Self {
        Self {
            api_version,
            kind,
            namespace,
            name,
            uid,
        }
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.to_owned()),
            kind: Some(self.kind.to_owned()),
            namespace: self.namespace.clone(),
            name: Some(self.name.clone()),
            uid: self.uid.clone(),
            ..ObjectReference::default()
        }
    }
}

impl Events {
    /// `instance` identifies the reporting host: the node's name, or the pod's.
    pub fn new(client: Option<Client>, instance: String) -> Self {
        Self {
            client,
            reporter: Reporter {
                controller: FIELD_MANAGER.to_owned(),
                instance: Some(instance),
            },
            by_note: Arc::default(),
        }
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
        let Some(client) = &self.client else {
            return false;
        };
        let note = shortened(note, NOTE_BYTES);
        let recorder = self.recorder(client, &note);
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
            let error = error.describe();
            tracing::warn!(error, reason, ?about, "an event was not written");
            return false;
        }
        true
    }

    fn recorder(&self, client: &Client, note: &str) -> Recorder {
        let now = Instant::now();
        let mut all = lock(&self.by_note);
        all.retain(|_, (_, written_at)| now.duration_since(*written_at) < COUNTED);
        let new = || Recorder::new(client.clone(), self.reporter.clone());
        let (recorder, written_at) = all.entry(note.to_owned()).or_insert_with(|| (new(), now));
        *written_at = now;
        recorder.clone()
    }
}

#[cfg(test)]
mod tests;

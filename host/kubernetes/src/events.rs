//! Events: what a person finds by `kubectl describe`. Apart because every part of the room says something to people, in one way, and because
//! an event that cannot be written must stop nothing.
//!
//! Equal events are counted in one object by the recorder. It knows no reason; those who say something name it.

use crate::FIELD_MANAGER;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

/// Longest note that the API server takes, in bytes (events.k8s.io/v1 validation, `noteLengthLimit`).
const NOTE_BYTES: usize = 1024;
/// Where a note was cut.
const CUT: &str = "…";

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
pub struct Events(Option<Recorder>);

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
            Recorder::new(
                client,
                Reporter {
                    controller: FIELD_MANAGER.to_owned(),
                    instance: Some(instance),
                },
            )
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
        let Some(recorder) = &self.0 else {
            return false;
        };
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(within_api(note)),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = recorder.publish(&event, &about.reference()).await {
            tracing::warn!(%error, reason, ?about, "an event was not written");
            return false;
        }
        true
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
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_between_characters_to_what_the_api_server_takes() {
        assert_eq!(within_api("short".to_owned()), "short");
        let whole = "ä".repeat(NOTE_BYTES / 2);
        assert_eq!(within_api(whole.clone()), whole);
        let cut = within_api("ä".repeat(NOTE_BYTES));
        assert_eq!(cut.len(), 1023, "one more character would be too much");
        assert!(cut.ends_with("ä…"));
    }

    #[test]
    fn an_event_refers_to_its_object_as_kubectl_looks_for_it() {
        let snapshot = About::Snapshot {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
            uid: Some("u".to_owned()),
        };
        let reference = snapshot.reference();
        assert_eq!(
            reference.api_version.as_deref(),
            Some("snapshot.storage.k8s.io/v1")
        );
        assert_eq!(reference.uid.as_deref(), Some("u"));
        let node = About::Node {
            name: "w".to_owned(),
        };
        assert_eq!(node.reference().uid.as_deref(), Some("w"));
    }
}

//! Events: what a person finds by `kubectl describe`. Apart because every part of the room says something to people, in one way, and because
//! an event that cannot be written must stop nothing.
//!
//! Equal events are counted in one object by the recorder. It knows no reason; those who say something name it.

use crate::FIELD_MANAGER;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

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
    },
}

/// Writes events, where there is an API server.
#[derive(Clone)]
pub struct Events(Option<Recorder>);

impl About {
    fn reference(&self) -> ObjectReference {
        let (kind, namespace, name, uid) = match self {
            About::Node { name } => ("Node", None, name, None),
            About::Pod {
                namespace,
                name,
                uid,
            } => ("Pod", Some(namespace), name, Some(uid)),
            About::Claim { namespace, name } => {
                ("PersistentVolumeClaim", Some(namespace), name, None)
            }
        };
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(kind.to_owned()),
            namespace: namespace.cloned(),
            name: Some(name.clone()),
            // kubelet's own events of a node have its name for its uid, and `kubectl describe node` asks for both.
            uid: uid
                .cloned()
                .or_else(|| (kind == "Node").then(|| name.clone())),
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

    /// Says that something is wrong: `reason` is one word in CamelCase, `action` what was tried, `note` a sentence for a person.
    pub async fn warn(&self, about: &About, reason: &str, action: &str, note: String) {
        self.publish(EventType::Warning, about, reason, action, note)
            .await;
    }

    /// Says that something is as it should be, again.
    pub async fn inform(&self, about: &About, reason: &str, action: &str, note: String) {
        self.publish(EventType::Normal, about, reason, action, note)
            .await;
    }

    async fn publish(
        &self,
        type_: EventType,
        about: &About,
        reason: &str,
        action: &str,
        note: String,
    ) {
        let Some(recorder) = &self.0 else { return };
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = recorder.publish(&event, &about.reference()).await {
            tracing::warn!(%error, reason, ?about, "an event was not written");
        }
    }
}

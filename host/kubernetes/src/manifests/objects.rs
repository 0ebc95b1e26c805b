//! A backend as an object that the pods follow (`--storage-backends`): the object, and what the pods are told and may do for it.
//!
//! The mounter keeps its document in the ConfigMap: what may be mounted on a node is not decided by whoever may write an object.

use super::rbac::Part;
use super::rbac::Right;
use super::{Manifest, ManifestsError, Parts};
use serde_json::{Value, json};

/// API group of the objects.
const GROUP: &str = "wasmount.io";
const READ: [&str; 3] = ["get", "list", "watch"];
/// By this label the pods of a backend find its object.
const INSTANCE: &str = "app.kubernetes.io/instance";

impl Parts<'_> {
    /// Whether the pods follow an object.
    pub(super) fn follows(&self) -> bool {
        self.backend.object.is_some()
    }

    pub(super) fn followed(&self) -> Result<Option<Manifest>, ManifestsError> {
        let Some(object) = &self.backend.object else {
            return Ok(None);
        };
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                let ours = self.labels().into_iter();
                labels.extend(ours.map(|(key, value)| (key, value.into())));
            }
        }
        let about = "The backend: what is changed here is served within seconds, by all hosts, without a restart. What of the node may be mounted \
                     is the mounter's document, in the ConfigMap.";
        Manifest::new(about, &object).map(Some)
    }

    /// Selects the object of the backend.
    pub(super) fn own_object(&self) -> String {
        format!("{INSTANCE}={}", self.backend.name)
    }

    /// Arguments of the host that say which documents it serves.
    pub(super) fn documents(&self, part: Part, file: String) -> Vec<String> {
        if !self.follows() {
            return vec![format!("--backend={file}")];
        }
        let summarises = if self.is_controller(part) {
            "on"
        } else {
            "off"
        };
        vec![
            format!("--storage-backends={}", self.own_object()),
            format!("--storage-backend-status={summarises}"),
        ]
    }

    /// Of the whole cluster, beside those of every backend.
    pub(super) fn object_rights(&self, part: Part) -> Vec<Right> {
        if !self.follows() {
            return Vec::new();
        }
        let mut rights = vec![
            Right::new(
                GROUP,
                "storagebackends",
                READ,
                "the objects that it serves (--storage-backends)",
            ),
            Right::new(
                GROUP,
                "storagebackendnodes",
                // Server-side apply of a missing object asks for `create`.
                ["get", "create", "patch"],
                "what it says of them; the policies below narrow that to its own host and backend",
            ),
        ];
        if self.is_controller(part) {
            rights.extend([
                Right::new(
                    GROUP,
                    "storagebackends/status",
                    ["get", "patch"],
                    "the summary of all hosts (--storage-backend-status)",
                )
                .only(self.backend.name.clone()),
                Right::new(
                    GROUP,
                    "storagebackends",
                    ["patch"],
                    "the finalizer, until no volume is staged",
                )
                .only(self.backend.name.clone()),
                Right::new(
                    GROUP,
                    "storagebackendnodes",
                    ["list", "watch", "delete"],
                    "what all hosts say; those of hosts that are no more",
                ),
                Right::new("", "nodes", ["get"], "whether a silent host is no more"),
            ]);
        }
        rights
    }

    /// Of the pods' namespace.
    pub(super) fn object_rights_there(&self) -> Vec<Right> {
        let mut rights = Vec::new();
        if !self.follows() {
            return rights;
        }
        let own = (!self.backend.secrets.is_empty()).then(|| self.named("secrets"));
        for name in own.into_iter().chain(self.backend.named_secrets.clone()) {
            let why = "the backend's secrets, and whether they change";
            rights.push(Right::new("", "secrets", READ, why).only(name));
        }
        rights
    }

    /// The backend's secrets as files: an object names them, and the host asks for them.
    pub(super) fn mounts_secrets(&self) -> bool {
        !self.backend.secrets.is_empty() && !self.follows()
    }
}

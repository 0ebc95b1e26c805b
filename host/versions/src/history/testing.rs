//! Histories for tests of this crate.

use super::{CandidateKey, History, Identity, Known, NewVersion, settings_digest};
use crate::desired::{Desired, DesiredFrom, Origin};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wasmount_core::document::{StorageBackend, raw};
use wasmount_core::services::{Service, ServiceSet};

pub(crate) fn document(plugin: serde_json::Value, setting: &str) -> StorageBackend {
    let document: raw::Document = serde_json::from_value(json!({
        "apiVersion": "wasmount.io/v1alpha1",
        "kind": "StorageBackend",
        "metadata": { "name": "test" },
        "spec": {
            "driverName": "test.wasmount.io",
            "plugin": plugin,
            "settings": { "setting": setting },
        },
    }))
    .unwrap();
    document.try_into().unwrap()
}

pub(crate) fn desired(plugin: serde_json::Value, setting: &str) -> Desired {
    Desired {
        document: document(plugin, setting),
        folder: PathBuf::from("/etc/wasmount"),
        from: DesiredFrom::Object("test".to_owned()),
    }
}

/// A version of this code with this setting.
pub(crate) fn new_version(code: &str, setting: &str) -> NewVersion {
    let desired = desired(json!({ "path": format!("{code}.wasm") }), setting);
    NewVersion {
        key: CandidateKey {
            identity: Identity {
                digest: format!("sha256:{code}"),
                settings_digest: settings_digest(&desired.document),
            },
            secrets: String::new(),
        },
        plugin: "test".to_owned(),
        plugin_version: "1.0.0".to_owned(),
        known: Known {
            digest: format!("sha256:{code}"),
            origin: Origin::File(PathBuf::from(code)),
            signed_by: Vec::new(),
        },
        desired,
        offer: ServiceSet::new([Service::Controller, Service::NodeStage], []),
    }
}

pub(crate) fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

/// So many versions, each proven, the last one serving.
pub(crate) fn history_of(versions: u64) -> History {
    let mut history = History::default();
    for number in 1..=versions {
        history.admit(
            new_version(&format!("code-{number}"), "a"),
            true,
            at(number),
        );
    }
    history
}

//! Parses an object by the same rules as a file. An object also has a generation, may be deleted by its owner, and has no folder that relative paths
//! could start from.
//!
//! It sends no request.

use super::rollout::state::RolloutPart;
use super::{BackendObject, FORCE_DELETE};
use kube::ResourceExt;
use serde::Deserialize;
use std::path::Path;
use wasmount_core::document::{KeyPath, PluginPlace, PublicKey, SecretSource, StorageBackend, raw};

/// A backend that is desired by an object.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredBackend {
    /// Its name.
    pub name: String,
    /// The object's uid: another object of the same name has another one.
    pub uid: String,
    /// The generation of its `spec`.
    pub generation: i64,
    /// The parsed document, without steps; or why it is invalid, as a sentence.
    pub document: Result<Box<StorageBackend>, String>,
    /// Its deletion, if it is being deleted.
    pub leaving: Option<Leaving>,
    /// The API server still has it.
    pub there: bool,
    /// The host's part in the rollout, if it has steps.
    pub rollout: Option<RolloutPart>,
}

/// How a backend is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// When none of its volumes is staged any more.
    WhenUnused,
    /// At once, even with staged volumes.
    AtOnce,
}

/// Parses an object. `there` is false for one that the API server no longer has.
pub(super) fn desired(object: &BackendObject, there: bool) -> DesiredBackend {
    let name = object.name_any();
    let forced = object.annotations().get(FORCE_DELETE);
    let goes = !there || object.metadata.deletion_timestamp.is_some();
    DesiredBackend {
        document: document(&name, object).map(Box::new),
        name,
        uid: object.uid().unwrap_or_default(),
        generation: object.metadata.generation.unwrap_or_default(),
        there,
        rollout: None,
        leaving: goes.then_some(match forced.is_some_and(|value| value == "true") {
            true => Leaving::AtOnce,
            false => Leaving::WhenUnused,
        }),
    }
}

fn document(name: &str, object: &BackendObject) -> Result<StorageBackend, String> {
    let spec = raw::Spec::deserialize(&object.spec).map_err(|error| format!("spec: {error}"))?;
    let document = raw::Document {
        api_version: raw::API_VERSION.to_owned(),
        kind: raw::KIND.to_owned(),
        metadata: raw::Metadata {
            name: name.to_owned(),
            labels: Default::default(),
            annotations: Default::default(),
        },
        spec,
    };
    let mut document = StorageBackend::try_from(document).map_err(|invalid| invalid.to_string())?;
    // Other steps are no other version.
    document.rollout = None;
    match relative_path(&document) {
        Some(key) => Err(key
            .invalid(
                "must be a full path: an object has no directory that a relative path could start from",
            )
            .to_string()),
        None => Ok(document),
    }
}

/// The key of the first relative path. Pools may be relative: those start from the data directory.
fn relative_path(document: &StorageBackend) -> Option<KeyPath> {
    let relative = |path: &Path| path.is_relative();
    let plugin = KeyPath::of("spec.plugin");
    let secret = |key: KeyPath, source: &SecretSource| match source {
        SecretSource::File(path) if relative(path) => Some(key.key("file")),
        _ => None,
    };
    let of_place = match &document.plugin.place {
        PluginPlace::File(path) => relative(path).then(|| plugin.key("path")),
        PluginPlace::Registry(place) => {
            let registry = plugin.key("registry");
            let ca = place.ca_file.as_deref().is_some_and(relative);
            let credentials = place.credentials.as_ref();
            ca.then(|| registry.key("caFile"))
                .or_else(|| credentials.and_then(|it| secret(registry.key("credentials"), it)))
        }
    };
    let of_keys = || {
        let mut keys = document.plugin.signers.keys();
        let file = |key: &PublicKey| matches!(key, PublicKey::File(path) if relative(path));
        keys.any(file).then(|| plugin.key("verify"))
    };
    let of_secrets = || {
        let key = KeyPath::of("spec.secrets");
        let mut all = document.secrets.iter();
        all.find_map(|(name, source)| secret(key.key(name), source))
    };
    of_place.or_else(of_keys).or_else(of_secrets)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An object with these fields of `spec`.
    pub(in crate::storage_backend) fn object(name: &str, spec: Value) -> BackendObject {
        let object = json!({
            "apiVersion": raw::API_VERSION, "kind": raw::KIND,
            "metadata": { "name": name, "uid": format!("uid-of-{name}"), "generation": 3, "resourceVersion": "7" },
            "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    pub(in crate::storage_backend) fn spec() -> Value {
        json!({ "driverName": "a.example", "plugin": { "path": "/a.wasm" } })
    }

    #[test]
    fn an_object_is_read_as_a_file_is() {
        let read = desired(&object("a", spec()), true);
        let document = read.document.unwrap();
        assert_eq!((read.name.as_str(), read.generation), ("a", 3));
        assert_eq!(document.driver_name.as_str(), "a.example");
        assert_eq!(read.leaving, None);
    }

    #[test]
    fn the_steps_of_a_rollout_are_checked_and_no_part_of_it() {
        let mut with_steps = spec();
        with_steps["rollout"] = json!({ "steps": [{ "percent": 10 }] });
        let read = |spec: Value| desired(&object("a", spec), true).document;
        assert_eq!(read(with_steps.clone()), read(spec()));
        with_steps["rollout"]["steps"][0]["percent"] = json!(0);
        let refused = read(with_steps).unwrap_err();
        let message = "spec.rollout.steps[0].percent: must be between 1 and 100";
        assert_eq!(refused, message);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        for (key, value, message) in [
            ("driverName", json!("-"), "spec.driverName: "),
            ("drivername", json!("a"), "spec: unknown field `drivername`"),
            ("plugin", json!({}), "spec.plugin: must have a `path`"),
            (
                "plugin",
                json!({ "path": "a.wasm" }),
                "spec.plugin.path: must be a full path",
            ),
            (
                "plugin",
                json!({ "path": "/a", "verify": { "anyOf": [{ "file": "key.pub" }] } }),
                "spec.plugin.verify: must be a full path",
            ),
            (
                "plugin",
                json!({ "reference": "oci://a.b/c:1", "registry": { "caFile": "ca.pem" } }),
                "spec.plugin.registry.caFile: must be a full path",
            ),
            (
                "secrets",
                json!({ "token": { "file": "token" } }),
                "spec.secrets.token.file: must be a full path",
            ),
        ] {
            let mut spec = spec();
            spec[key] = value;
            let refused = desired(&object("a", spec), true).document.unwrap_err();
            assert!(refused.starts_with(message), "{refused}");
        }
    }

    #[test]
    fn a_pool_may_be_relative_since_it_begins_in_the_data_directory() {
        let mut spec = spec();
        spec["grants"] = json!({ "pools": { "p": { "path": "p" } } });
        assert!(desired(&object("a", spec), true).document.is_ok());
    }

    #[test]
    fn a_deleted_object_waits_for_its_volumes_unless_it_is_forced() {
        let mut deleted = object("a", spec());
        assert_eq!(desired(&deleted, false).leaving, Some(Leaving::WhenUnused));
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        deleted.metadata.deletion_timestamp = Some(time);
        assert_eq!(desired(&deleted, true).leaving, Some(Leaving::WhenUnused));
        let annotation = |value: &str| Some([(FORCE_DELETE.to_owned(), value.to_owned())].into());
        deleted.metadata.annotations = annotation("no");
        assert_eq!(desired(&deleted, true).leaving, Some(Leaving::WhenUnused));
        deleted.metadata.annotations = annotation("true");
        assert_eq!(desired(&deleted, true).leaving, Some(Leaving::AtOnce));
        // The annotation alone deletes nothing.
        deleted.metadata.deletion_timestamp = None;
        assert_eq!(desired(&deleted, true).leaving, None);
    }
}

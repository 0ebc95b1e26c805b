//! A record as an object of the API server: `BackendRecord`, a kind of this project.
//!
//! Not a ConfigMap: with its own kind, a role can name these objects and nothing else, the ClusterRole `view` does not show them, and no controller
//! of Kubernetes caches all of them. It sends no request.

use crate::error::KubernetesError;
use crate::request::resource_of;
use k8s_openapi::ByteString;
use kube::ResourceExt;
use kube::api::{ApiResource, NotUsed, Object, ObjectMeta};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use uuid::Uuid;
use wasmount_core::state::{Keyspace, KeyspaceOwner, StateEntry};

/// Label of the driver; the value is its name, which every label can hold (63 letters, digits, `-` and `.`).
pub(crate) const DRIVER: &str = "wasmount.io/driver";
/// Label of the owner, which selects one of a driver's keyspaces.
const OWNER: &str = "wasmount.io/owner";

/// An object of the API server.
pub(super) type BackendRecord = Object<RecordSpec, NotUsed>;

/// Its content. Its keyspace is in the labels, by which it is selected.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct RecordSpec {
    /// The key, which may not be a valid object name.
    key: String,
    /// The value.
    value: ByteString,
    /// A different value for every write. The API server ignores an update that changes nothing, and would keep the revision.
    write: String,
}

impl fmt::Debug for RecordSpec {
    /// Omits the value, which belongs to the vendor.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordSpec")
            .field("key", &self.key)
            .field("value_bytes", &self.value.0.len())
            .finish_non_exhaustive()
    }
}

impl RecordSpec {
    /// For one write.
    pub(super) fn new(key: &str, value: Vec<u8>) -> Self {
        Self {
            key: key.to_owned(),
            value: ByteString(value),
            write: Uuid::new_v4().to_string(),
        }
    }
}

/// The kind in requests to the API server.
pub(super) fn resource() -> ApiResource {
    resource_of("BackendRecord", "backendrecords")
}

/// An object for a new record.
pub(super) fn object(space: &Keyspace, name: &str, spec: RecordSpec) -> BackendRecord {
    let labels = labels(space).map(|(label, value)| (label.to_owned(), value.to_owned()));
    let mut record = BackendRecord::new(name, &resource(), spec);
    record.metadata.labels = Some(labels.into());
    record
}

/// The name of the object of a key: a hash, since a key may be longer than a name, and any text.
pub(super) fn name(space: &Keyspace, key: &str) -> String {
    let mut hash = Sha256::new();
    // Only the last part may contain a NUL byte, so different records never give the same bytes.
    for part in [space.driver.as_str(), "\0", owner(space), "\0", key] {
        hash.update(part.as_bytes());
    }
    hex::encode(hash.finalize())
}

/// Selects the records of a keyspace, and no others.
pub(super) fn selector(space: &Keyspace) -> String {
    labels(space)
        .map(|(label, value)| format!("{label}={value}"))
        .join(",")
}

/// The record in an object. An object without the labels of its keyspace was created by another account, which can use any name, but cannot set our
/// labels (`manifests/templates/policies.yaml`).
pub(super) fn entry(
    space: &Keyspace,
    record: BackendRecord,
) -> Result<StateEntry, KubernetesError> {
    let there = record.labels();
    let has = |(label, value)| there.get(label).is_some_and(|it| it == value);
    if !labels(space).into_iter().all(has) {
        return Err(KubernetesError::ForeignRecord(record.name_any()));
    }
    Ok(StateEntry {
        revision: revision(&record.metadata)?,
        key: record.spec.key,
        value: record.spec.value.0,
    })
}

/// The revision of an object. Opaque in Kubernetes until 1.34; from 1.35 on a number that increases, as it always was with etcd.
pub(super) fn revision(metadata: &ObjectMeta) -> Result<u64, KubernetesError> {
    let found = metadata.resource_version.as_deref().unwrap_or_default();
    found.parse().map_err(|_| KubernetesError::Revision {
        name: metadata.name.clone().unwrap_or_default(),
        found: found.to_owned(),
    })
}

fn labels(space: &Keyspace) -> [(&'static str, &str); 2] {
    [(DRIVER, space.driver.as_str()), (OWNER, owner(space))]
}

fn owner(space: &Keyspace) -> &'static str {
    match space.owner {
        KeyspaceOwner::Backend => "backend",
        KeyspaceOwner::Host => "host",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::names::DriverName;

    fn space(driver: &str, owner: KeyspaceOwner) -> Keyspace {
        Keyspace {
            driver: DriverName::parse(driver).unwrap(),
            owner,
        }
    }

    #[test]
    fn record_names_are_valid_and_unique_in_kubernetes() {
        let backend = space("a.b", KeyspaceOwner::Backend);
        let others = [
            name(&backend, ""),
            name(&backend, "k"),
            name(&space("a.b", KeyspaceOwner::Host), "k"),
            name(&space("a", KeyspaceOwner::Backend), "k"),
            name(&backend, "Ä\n/.."),
        ];
        for (i, one) in others.iter().enumerate() {
            assert_eq!(one.len(), 64);
            assert!(
                one.chars()
                    .all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase())
            );
            assert!(others.iter().skip(i + 1).all(|other| other != one));
        }
    }

    #[test]
    fn the_record_format_matches_existing_clusters() {
        let space = space("directory.wasmount.io", KeyspaceOwner::Backend);
        let mut spec = RecordSpec::new("volume/1", b"\0\xff".to_vec());
        spec.write = "w-1".to_owned();
        let object = object(&space, &name(&space, "volume/1"), spec);
        let json = serde_json::to_value(&object).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "apiVersion": "wasmount.io/v1alpha1",
                "kind": "BackendRecord",
                "metadata": {
                    "name": "14008272ca9a7468fd08cfbb0577402998bb80b44f825901d3d978f6749c7540",
                    "labels": {"wasmount.io/driver": "directory.wasmount.io", "wasmount.io/owner": "backend"},
                },
                "spec": {"key": "volume/1", "value": "AP8=", "write": "w-1"},
            })
        );
        assert_eq!(
            selector(&space),
            "wasmount.io/driver=directory.wasmount.io,wasmount.io/owner=backend"
        );
    }

    #[test]
    fn a_record_is_read_with_revision_and_labels_and_else_refused() {
        let space = space("a", KeyspaceOwner::Backend);
        let spec = RecordSpec::new("k", b"v".to_vec());
        let mut object = object(&space, "n", spec);
        assert!(!format!("{object:?}").contains("118"), "a value in the log");
        let refused = entry(&space, object.clone()).unwrap_err();
        assert!(matches!(refused, KubernetesError::Revision { .. }));
        object.metadata.resource_version = Some("17".to_owned());
        let expected = StateEntry {
            key: "k".to_owned(),
            value: b"v".to_vec(),
            revision: 17,
        };
        assert_eq!(entry(&space, object.clone()).unwrap(), expected);
        for other in [
            self::space("b", KeyspaceOwner::Backend),
            self::space("a", KeyspaceOwner::Host),
        ] {
            let refused = entry(&other, object.clone()).unwrap_err();
            assert!(matches!(refused, KubernetesError::ForeignRecord(name) if name == "n"));
        }
    }
}

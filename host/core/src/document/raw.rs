//! The shape of a `StorageBackend` document on disk, key by key, and nothing else. Apart from the checked words because a parser must be
//! able to point at every key that does not belong, and because the CRD's schema follows it.
//!
//! It knows neither YAML nor what a value may be: amounts are kept as they were written.

use super::csi_driver::CsiDriver;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::fmt;

/// The API version that this host reads.
pub const API_VERSION: &str = "wasmount.io/v1alpha1";
/// The kind that this host reads.
pub const KIND: &str = "StorageBackend";

/// The document.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Document {
    pub api_version: String,
    pub kind: String,
    pub metadata: Metadata,
    pub spec: Spec,
}

/// Of Kubernetes' metadata what a local file can mean.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Metadata {
    pub name: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Spec {
    pub driver_name: String,
    pub plugin: Plugin,
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    #[serde(default)]
    pub secrets: BTreeMap<String, Secret>,
    #[serde(default)]
    pub grants: Grants,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub versions: Versions,
    #[serde(default)]
    pub csi: Csi,
    #[serde(default)]
    pub csi_driver: CsiDriver,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Plugin {
    pub path: Option<String>,
    pub reference: Option<String>,
    pub registry: Option<RegistryAccess>,
    pub digest: Option<String>,
    pub wasi: Option<String>,
    pub verify: Option<Verify>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct RegistryAccess {
    pub credentials: Option<Secret>,
    pub ca_file: Option<String>,
    pub plain_http: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Verify {
    pub any_of: Vec<VerifyKey>,
    pub all_of: Vec<VerifyKey>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct VerifyKey {
    pub file: Option<String>,
    pub pem: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Secret {
    pub file: Option<String>,
    pub secret: Option<SecretKey>,
}

/// One value of a Kubernetes Secret.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct SecretKey {
    pub namespace: String,
    pub name: String,
    pub key: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Grants {
    pub pools: BTreeMap<String, Pool>,
    pub filesystems: Vec<Filesystem>,
    pub devices: Vec<Device>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Pool {
    pub path: String,
    #[serde(default)]
    pub full_copies: bool,
    #[serde(default)]
    pub mount_options: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Filesystem {
    #[serde(rename = "type")]
    pub fs_type: String,
    #[serde(default)]
    pub sources: Vec<String>,
    #[serde(default)]
    pub mount_options: Vec<String>,
    pub max_bytes: Option<Amount>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Device {
    pub facts: BTreeMap<String, String>,
    #[serde(default)]
    pub mount_options: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Limits {
    pub memory: Option<Amount>,
    pub time: Option<String>,
    pub cpu: Option<String>,
    pub concurrency: Option<u64>,
    pub host_call_bytes: Option<Amount>,
    pub table_elements: Option<u64>,
    pub handles: Option<u64>,
    pub state_bytes: Option<Amount>,
    pub long_ids: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Versions {
    pub keep: Option<u64>,
    pub drain: Option<String>,
    pub rollback: Rollback,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Rollback {
    pub faults: Option<u64>,
    pub window: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Csi {
    pub hide_capabilities: Vec<String>,
}

/// A quantity as it was written: `64Mi`, or a plain number, which YAML does not call a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount(pub String);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl de::Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as `64Mi`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount(number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount(number.to_string()))
    }
}

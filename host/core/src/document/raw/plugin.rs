//! `spec.plugin` and the secrets on disk.

#[cfg(feature = "schema")]
use super::rules::{self, DIGEST, FULL_PATH, NAME, REFERENCE, TEXT};
use serde::Deserialize;

/// Where the component comes from, and what must be true of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    ("has(self.path) != has(self.reference)", "must have one of `path`, the file of the component, and `reference`, its name in a registry"),
    ("!has(self.registry) || has(self.reference)", "`registry` is for a `reference`; a file needs no registry"),
]))))]
pub struct Plugin {
    /// File of the component on the node; a full path.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = FULL_PATH)))]
    pub path: Option<String>,
    /// Name of the component in a registry: `oci://registry/repository:tag`, or `@sha256:..` in place of the tag.
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 1024), regex(pattern = REFERENCE))
    )]
    pub reference: Option<String>,
    /// How the registry is reached.
    pub registry: Option<RegistryAccess>,
    /// Digest of the component itself; another one is refused.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DIGEST)))]
    pub digest: Option<String>,
    /// What of WASI may be imported: `minimal`, or `full` for language runtimes that import files and sockets, which then fail.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["minimal", "full"])))]
    pub wasi: Option<String>,
    /// Whose signatures it needs.
    pub verify: Option<Verify>,
}

/// How a registry is reached.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegistryAccess {
    /// What authorises the pull: docker's `config.json`, or a Secret of the type `kubernetes.io/dockerconfigjson`.
    pub credentials: Option<Secret>,
    /// File with certificates, PEM, that are trusted beside the system's; a full path.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = FULL_PATH)))]
    pub ca_file: Option<String>,
    /// Speaks HTTP without TLS.
    pub plain_http: bool,
}

/// Whose signatures a component needs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    (
        "(has(self.anyOf) && self.anyOf.size() > 0) || (has(self.allOf) && self.allOf.size() > 0)",
        "names no key, so any component would pass; name one in `anyOf` or `allOf`, or leave the key out",
    ),
]))))]
pub struct Verify {
    /// One of these at least, if there are any.
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub any_of: Vec<VerifyKey>,
    /// Each of these.
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub all_of: Vec<VerifyKey>,
}

/// A public key.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    ("has(self.file) != has(self.pem)", "must have one of `file` and `pem`"),
]))))]
pub struct VerifyKey {
    /// File of the key on the node; a full path.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = FULL_PATH)))]
    pub file: Option<String>,
    /// The key itself.
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 16384), regex(pattern = "-----BEGIN PUBLIC KEY-----"))
    )]
    pub pem: Option<String>,
}

/// Where a secret is read; its value never stands here.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    ("has(self.file) != has(self.secret)", "must have one of `file` and `secret`; a value is not allowed here"),
]))))]
pub struct Secret {
    /// File on the node; a full path.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = FULL_PATH)))]
    pub file: Option<String>,
    /// One value of a Secret.
    pub secret: Option<SecretKey>,
}

/// One value of a Kubernetes Secret.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretKey {
    /// Its namespace.
    #[cfg_attr(feature = "schema", schemars(length(max = 253), regex(pattern = NAME)))]
    pub namespace: String,
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(length(max = 253), regex(pattern = NAME)))]
    pub name: String,
    /// Which of its values.
    #[cfg_attr(feature = "schema", schemars(length(max = 253), regex(pattern = TEXT)))]
    pub key: String,
}

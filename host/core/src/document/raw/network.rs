//! `spec.grants.network` on disk.

use super::Amount;
use super::limits::duration;
#[cfg(feature = "schema")]
use super::rules::{self, TEXT};
use crate::document::network::{Algorithm, Protocol, Scheme, ServiceName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A storage system that the plugin may send requests to. The plugin names it by the key of this entry, as the authority of its requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Endpoint {
    /// Hosts with ports, such as `array.example.com:443`; the first one that accepts a connection is used. With `hostFrom` also patterns.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 16), inner(regex(pattern = TEXT), length(max = 261))))]
    pub hosts: Vec<String>,
    /// The host is a value of the request, within `hosts`.
    pub host_from: Option<HostFrom>,
    /// Ranges that addresses must be in, such as `10.1.0.0/16`; also allows special ranges such as loopback.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 16), inner(regex(pattern = TEXT), length(max = 64))))]
    pub addresses: Vec<String>,
    /// Whether requests use TLS.
    #[serde(default)]
    pub scheme: Scheme,
    /// Services that may send requests; the controller by default.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 2)))]
    pub services: Vec<ServiceName>,
    /// Methods; all by default.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 16), inner(regex(pattern = "^[A-Z]{1,16}$")))
    )]
    pub methods: Vec<String>,
    /// Paths, with what is below them; all by default.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 64), inner(regex(pattern = "^/"), length(max = 1024)))
    )]
    pub paths: Vec<String>,
    /// How the host verifies the system and identifies itself.
    #[serde(default)]
    pub tls: Tls,
    /// Proxy, such as `http://proxy.example.com:3128`.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = "^https?://"), length(max = 1024))
    )]
    pub proxy: Option<String>,
    /// HTTP version.
    #[serde(default)]
    pub protocol: Protocol,
    /// Times.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Rate of requests.
    #[serde(default)]
    pub rate: Rate,
    /// Largest body in either direction; 4Mi by default, at most 32Mi.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::bytes"))]
    pub max_body: Option<Amount>,
    /// Credentials that the host adds.
    pub auth: Option<Auth>,
}

/// The place of a host in a request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFrom {
    /// Name of a secret of the request.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TEXT), length(max = 253)))]
    pub request_secret: String,
}

/// How the host verifies the system and identifies itself. Certificates and keys are names of `spec.secrets`, in PEM.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    ("has(self.clientCertificate) == has(self.clientKey)", "needs both of `clientCertificate` and `clientKey`"),
]))))]
pub struct Tls {
    /// Secret with the certificates that are trusted, instead of the system's.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub ca: Option<String>,
    /// Name in the certificate and in the `Host` header, if it is not the host's.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub server_name: Option<String>,
    /// Secret with the client's certificate chain.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub client_certificate: Option<String>,
    /// Secret with the client's private key.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub client_key: Option<String>,
    /// SHA-256 digests of accepted certificates, in hexadecimal.
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 16), inner(regex(pattern = "^[0-9a-f]{64}$")))
    )]
    pub pin_sha256: Vec<String>,
    /// Accepts every certificate: for tests only, since traffic can be read and changed in transit.
    pub skip_verify: bool,
}

/// Times of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeouts {
    /// Until the connection exists; 5s by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub connect: Option<String>,
    /// Until the headers of the answer are there; 60s by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub first_byte: Option<String>,
    /// Until the answer is complete; 300s by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub total: Option<String>,
    /// Until an unused connection is closed; 90s by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub idle: Option<String>,
}

/// Rate of requests, of all calls together.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rate {
    /// Requests a second; not limited by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100_000)))]
    pub per_second: Option<u64>,
    /// Requests that may be sent at once after a pause; as many as `perSecond` by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100_000)))]
    pub burst: Option<u64>,
    /// Requests at a time, and so connections; 8 by default. 1 serialises them.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1024)))]
    pub in_flight: Option<u64>,
}

/// Credentials that the host adds to each request: one kind of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("minProperties" = 1, "maxProperties" = 1)))]
pub struct Auth {
    /// HTTP Basic.
    pub basic: Option<Basic>,
    /// A bearer token.
    pub bearer: Option<Bearer>,
    /// A header.
    pub header: Option<Header>,
    /// A JSON Web Token that the host signs, as bearer token.
    pub jwt: Option<Jwt>,
    /// A token that a login yields.
    pub session: Option<Session>,
    /// Name of another entry whose session is used.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub session_of: Option<String>,
}

/// HTTP Basic (RFC 7617): names of `spec.secrets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Basic {
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub username: String,
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub password: String,
}

/// A bearer token (RFC 6750): a name of `spec.secrets`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the field is the document's key")]
pub struct Bearer {
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub token: String,
}

/// A header with a secret value.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Header {
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub name: String,
    /// A name of `spec.secrets`.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub value: String,
}

/// A JSON Web Token (RFC 7519).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jwt {
    /// How it is signed.
    pub algorithm: Algorithm,
    /// Secret with the key: PKCS #8 in PEM, or the bytes for HS256.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub key: String,
    /// Key id in the header of the token.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub key_id: Option<String>,
    /// Claims; `iat` and `exp` are added.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("maxProperties" = 32)))]
    pub claims: BTreeMap<String, String>,
    /// How long a token is valid; 5m by default.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub lifetime: Option<String>,
}

/// A session: a login yields a token that all other requests carry.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// The request that logs in.
    pub login: Login,
    /// Where the token is in its answer.
    pub take: Take,
    /// Where the token is in other requests.
    pub give: Give,
    /// When the host logs in again.
    #[serde(default)]
    pub renew: Renew,
    /// The request that ends the session; it carries the token.
    pub logout: Option<Logout>,
}

/// The request that logs in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Login {
    /// POST by default.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[A-Z]{1,16}$")))]
    pub method: Option<String>,
    /// Its path, with a query if there is one.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = "^/"), length(max = 1024))
    )]
    pub path: String,
    /// Headers: text, `{ secret: NAME }` or `{ identifier: NAME }`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::secret_texts"))]
    pub headers: BTreeMap<String, SecretText>,
    /// Body in JSON; each `{ secret: NAME }` and `{ identifier: NAME }` in it is replaced by that value.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::any_object"))]
    pub json: Option<Value>,
    /// Body as a form: text, `{ secret: NAME }` or `{ identifier: NAME }`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::secret_texts"))]
    pub form: BTreeMap<String, SecretText>,
    /// HTTP Basic.
    pub basic: Option<Basic>,
}

/// Text, or a name of `spec.secrets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum SecretText {
    /// As it is.
    Text(String),
    /// The value of this name, which is a secret.
    Secret {
        /// The name.
        secret: String,
    },
    /// The value of this name, which is no secret.
    Identifier {
        /// The name.
        identifier: String,
    },
}

/// Where a token is in the answer to a login: one of these.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("minProperties" = 1, "maxProperties" = 1)))]
pub struct Take {
    /// A header.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub header: Option<String>,
    /// A JSON pointer (RFC 6901) into the body.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = "^/"), length(max = 1024))
    )]
    pub json: Option<String>,
    /// A cookie.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub cookie: Option<String>,
}

/// Where a token is in other requests: one of these.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("minProperties" = 1, "maxProperties" = 1)))]
pub struct Give {
    /// A header.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub header: Option<String>,
    /// `Authorization: Bearer`.
    pub bearer: Option<bool>,
    /// A parameter of the query.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub query: Option<String>,
    /// A cookie.
    #[cfg_attr(feature = "schema", schemars(length(max = 253)))]
    pub cookie: Option<String>,
}

/// When the host logs in again.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Renew {
    /// At this age of the session; only when it is refused by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub after: Option<String>,
    /// Status codes that say that the session has ended; 401 by default.
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 16), inner(range(min = 200, max = 599)))
    )]
    pub status: Vec<u16>,
    /// A value in the body that says so.
    pub json: Option<RenewJson>,
}

/// A value in the body of an answer that says that the session has ended.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenewJson {
    /// JSON pointer (RFC 6901) into the body.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = "^/"), length(max = 1024))
    )]
    pub pointer: String,
    /// Numbers that say so, such as 119.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 16)))]
    pub values: Vec<i64>,
}

/// The request that ends a session.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Logout {
    /// POST by default.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[A-Z]{1,16}$")))]
    pub method: Option<String>,
    /// Its path, with a query if there is one.
    #[cfg_attr(
        feature = "schema",
        schemars(regex(pattern = "^/"), length(max = 1024))
    )]
    pub path: String,
}

//! The checked grants of the network: the storage systems that a plugin may send requests to, by the names that it gives them.

mod host;

pub use super::raw::Basic;
pub(in crate::document) use host::is_dns_name;
pub use host::{Host, HostName};

use super::raw::SecretText;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Largest body of a request or an answer that a document may allow, in bytes: the host holds it in memory.
pub const MAX_BODY_BYTES: u64 = 32 << 20;

/// A storage system that a plugin may send requests to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkGrant {
    /// Where it is; the first one that accepts a connection is used. Never empty.
    pub hosts: Vec<Host>,
    /// The secret of a request that names the host, within `hosts`.
    pub host_from: Option<String>,
    /// Ranges that addresses must be in, if there are any. They also allow special ranges.
    pub addresses: Vec<IpNet>,
    /// Whether requests use TLS.
    pub scheme: Scheme,
    /// Services that may send requests. Never empty.
    pub services: BTreeSet<ServiceName>,
    /// Methods. Never empty.
    pub methods: BTreeSet<String>,
    /// Paths, with what is below them. Never empty.
    pub paths: Vec<String>,
    /// How the host verifies the system and identifies itself.
    pub tls: Tls,
    /// URL of the proxy.
    pub proxy: Option<String>,
    /// HTTP version.
    pub protocol: Protocol,
    /// Times of a request.
    pub timeouts: Timeouts,
    /// Rate of requests.
    pub rate: Rate,
    /// Largest body in either direction.
    pub max_body_bytes: u64,
    /// Credentials that the host adds.
    pub auth: Auth,
}

/// Whether requests use TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "a CRD describes no variants")]
pub enum Scheme {
    // With TLS.
    #[default]
    Https,
    // Without.
    Http,
}

/// A CSI service of which the calls may send requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "a CRD describes no variants")]
pub enum ServiceName {
    // Identity and controller.
    Controller,
    // Node.
    Node,
}

/// The HTTP version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "a CRD describes no variants")]
pub enum Protocol {
    // What TLS negotiates; HTTP/1.1 without TLS.
    #[default]
    Auto,
    // HTTP/1.1.
    Http1,
    // HTTP/2, without TLS too.
    Http2,
}

/// How a JSON Web Token is signed (RFC 7518).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are those of RFC 7518")]
pub enum Algorithm {
    RS256,
    ES256,
    HS256,
}

/// How the host verifies the system and identifies itself. Certificates and keys are names of secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// Trusted certificates, instead of the system's.
    pub ca: Option<String>,
    /// Name in the certificate, if it is not the host's.
    pub server_name: Option<String>,
    /// The client's certificate chain and private key.
    pub client: Option<ClientIdentity>,
    /// Digests of accepted certificates; empty: each that is trusted.
    pub pins: BTreeSet<String>,
    /// Accepts every certificate.
    pub skip_verify: bool,
}

/// Names of the secrets that identify a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ClientIdentity {
    pub certificate: String,
    pub key: String,
}

/// Times of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// Until the connection exists. 5 s: a system of the same site answers within milliseconds.
    pub connect: Duration,
    /// Until the headers of the answer are there. 60 s: the default of `limits.time`.
    pub first_byte: Duration,
    /// Until the answer is complete. 300 s: the longest call of the drivers that were read (HPE CSP).
    pub total: Duration,
    /// Until an unused connection is closed. 90 s: hyper's default.
    pub idle: Duration,
}

/// Rate of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests a second, and how many may be sent at once after a pause.
    pub limit: Option<RateLimit>,
    /// Requests at a time. 8: below the connection limits of the arrays that were read about.
    pub in_flight: usize,
}

/// A rate with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RateLimit {
    pub per_second: u32,
    pub burst: u32,
}

/// Credentials that the host adds. Every `String` that is a secret is its name in the document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Auth {
    /// None.
    #[default]
    None,
    /// HTTP Basic.
    Basic(Basic),
    /// A bearer token: the name of a secret.
    Bearer(String),
    /// A header and the name of the secret in it.
    Header {
        /// Its name, in lower case.
        name: String,
        /// The name of the secret.
        value: String,
    },
    /// A token that the host signs.
    Jwt(Jwt),
    /// A token that a login yields.
    Session(Box<Session>),
    /// The session of another grant.
    SessionOf(String),
}

/// A token that the host signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwt {
    /// How.
    pub algorithm: Algorithm,
    /// The name of the secret with the key.
    pub key: String,
    /// Key id in the header.
    pub key_id: Option<String>,
    /// Claims beside `iat` and `exp`.
    pub claims: BTreeMap<String, String>,
    /// How long a token is valid. 5 minutes: what OAuth servers accept at most as an assertion.
    pub lifetime: Duration,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The request that logs in.
    pub login: Login,
    /// Where the token is in its answer.
    pub take: Take,
    /// Where the token is in other requests.
    pub give: Give,
    /// When the host logs in again.
    pub renew: Renew,
    /// Method and path of the request that ends it.
    pub logout: Option<(String, String)>,
}

/// The request that logs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Its method.
    pub method: String,
    /// Its path, with a query if there is one.
    pub path: String,
    /// Its headers.
    pub headers: BTreeMap<String, SecretText>,
    /// Its body.
    pub body: LoginBody,
    /// HTTP Basic.
    pub basic: Option<Basic>,
}

/// A name of `spec.secrets` in a field of a grant, by the role of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use<'d> {
    /// The value is a secret.
    Secret(&'d str),
    /// The value is none: it names a user.
    Identifier(&'d str),
}

/// The body of a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoginBody {
    /// None.
    Empty,
    /// JSON, in which each [`Use::of_json`] is replaced by the value of that name.
    Json(Value),
    /// A form.
    Form(BTreeMap<String, SecretText>),
}

/// Where a token is in the answer to a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Take {
    Header(String),
    /// A JSON pointer (RFC 6901).
    Json(String),
    Cookie(String),
}

/// Where a token is in other requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Give {
    Header(String),
    Bearer,
    Query(String),
    Cookie(String),
}

/// When the host logs in again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// At this age of the session.
    pub after: Option<Duration>,
    /// After these status codes.
    pub status: BTreeSet<u16>,
    /// After these numbers at a JSON pointer of an answer.
    pub json: Option<(String, BTreeSet<i64>)>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(60),
            total: Duration::from_secs(300),
            idle: Duration::from_secs(90),
        }
    }
}

impl NetworkGrant {
    /// The names of the secrets that the host uses for the plugin, which therefore cannot read them.
    pub fn secret_names(&self) -> BTreeSet<&str> {
        self.uses().into_iter().map(Use::name).collect()
    }

    /// The names of `spec.secrets` in all of its fields.
    pub(super) fn uses(&self) -> Vec<Use<'_>> {
        let mut uses = Vec::from_iter(self.tls.ca.as_deref().map(Use::Secret));
        if let Some(client) = &self.tls.client {
            uses.extend([Use::Secret(&client.certificate), Use::Secret(&client.key)]);
        }
        match &self.auth {
            Auth::None | Auth::SessionOf(_) => {}
            Auth::Basic(basic) => uses.extend(basic.uses()),
            Auth::Bearer(name) | Auth::Header { value: name, .. } => uses.push(Use::Secret(name)),
            Auth::Jwt(jwt) => uses.push(Use::Secret(&jwt.key)),
            Auth::Session(session) => uses.extend(session.login.uses()),
        }
        uses
    }
}

impl<'d> Use<'d> {
    /// `{ "secret": NAME }` or `{ "identifier": NAME }`.
    pub fn of_json(value: &'d Value) -> Option<Self> {
        let object = value.as_object().filter(|object| object.len() == 1)?;
        match object.iter().next()? {
            (key, Value::String(name)) if key == "secret" => Some(Self::Secret(name)),
            (key, Value::String(name)) if key == "identifier" => Some(Self::Identifier(name)),
            _ => None,
        }
    }

    /// The name.
    pub fn name(self) -> &'d str {
        match self {
            Self::Secret(name) | Self::Identifier(name) => name,
        }
    }
}

impl Basic {
    fn uses(&self) -> [Use<'_>; 2] {
        [Use::Identifier(&self.username), Use::Secret(&self.password)]
    }
}

impl Login {
    /// The names of `spec.secrets` in it.
    pub fn secret_names(&self) -> BTreeSet<&str> {
        self.uses().into_iter().map(Use::name).collect()
    }

    fn uses(&self) -> Vec<Use<'_>> {
        let mut uses: Vec<Use<'_>> = self.headers.values().filter_map(SecretText::used).collect();
        uses.extend(self.basic.iter().flat_map(Basic::uses));
        match &self.body {
            LoginBody::Empty => {}
            LoginBody::Form(fields) => uses.extend(fields.values().filter_map(SecretText::used)),
            LoginBody::Json(value) => uses_in_json(value, &mut uses),
        }
        uses
    }
}

impl SecretText {
    fn used(&self) -> Option<Use<'_>> {
        match self {
            Self::Text(_) => None,
            Self::Secret { secret } => Some(Use::Secret(secret)),
            Self::Identifier { identifier } => Some(Use::Identifier(identifier)),
        }
    }
}

/// The document's parser bounds the depth.
fn uses_in_json<'v>(value: &'v Value, uses: &mut Vec<Use<'v>>) {
    match (Use::of_json(value), value) {
        (Some(used), _) => uses.push(used),
        (None, Value::Object(object)) => {
            object.values().for_each(|value| uses_in_json(value, uses));
        }
        (None, Value::Array(array)) => array.iter().for_each(|value| uses_in_json(value, uses)),
        (None, _) => {}
    }
}

//! Requests of plugins to storage systems. A plugin names a grant; hosts, addresses, TLS, connections, credentials, limits and retries are the
//! host's.
//!
//! Bodies are buffered in both directions: a request can be repeated after a new login, and an answer is complete or an error.

#![forbid(unsafe_code)]

mod address;
mod connector;
mod credentials;
mod endpoint;
mod error;
mod login;
mod metadata_service;
mod policy;
mod retry;
mod secret_values;
mod sessions;
mod tape;
#[cfg(test)]
mod tests;
mod tls;
mod token;
mod usage;

pub use connector::Response;
pub use error::{NetworkError, SendError};
pub use metadata_service::MetadataError;
pub use policy::{MARKS, Marks, Scope};
pub use sessions::{Lease, SessionError, SessionFound, SessionStore};
pub use tape::{Conversation, TAPE_FILE_BYTES, TapeError};
pub use usage::Usage;
pub use wasmount_core::document::network::ServiceName as Service;

use bytes::Bytes;
use endpoint::Endpoint;
use http::Request;
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tape::{Replayed, Tape};
use wasmount_core::document::network::{Auth, NetworkGrant};
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// How long the host waits for all logouts when it ends.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// What is shared between versions: a grant of a driver with the values of its secrets.
type Identity = [u8; 32];

/// The network of one host process. It shares the connections and sessions of a grant between the calls and versions of a driver.
#[derive(Clone)]
pub struct Network {
    /// Ranges of the cluster's services and pods.
    cluster: Arc<[IpNet]>,
    open: Arc<Mutex<HashMap<Identity, Weak<Endpoint>>>>,
}

/// The storage systems that one version of a backend may send requests to. Without grants by default.
#[derive(Clone, Default)]
pub struct Endpoints(Arc<Opened>);

#[derive(Default)]
struct Opened {
    endpoints: BTreeMap<String, Arc<Endpoint>>,
    sessions: SessionStore,
    tape: Option<Tape>,
}

impl Network {
    /// A network without connections. Requests are sent to addresses in `cluster`, the ranges of the cluster's services and pods, only where a grant
    /// names them.
    pub fn new(cluster: Vec<IpNet>) -> Self {
        Self {
            cluster: cluster.into(),
            open: Arc::default(),
        }
    }

    /// What a version of a backend may reach. Nothing is connected yet. An unchanged grant with unchanged secrets keeps the connections and the
    /// session of the version before.
    pub fn open(
        &self,
        driver: &DriverName,
        grants: &BTreeMap<String, NetworkGrant>,
        secrets: &Secrets,
    ) -> Result<Endpoints, NetworkError> {
        let mut endpoints = BTreeMap::new();
        // Entries with a session come first: others may use it.
        let (with, without): (Vec<_>, Vec<_>) = grants
            .iter()
            .partition(|(_, grant)| matches!(grant.auth, Auth::Session(_)));
        for (name, grant) in with.into_iter().chain(without) {
            let lender: Option<Arc<Endpoint>> = match &grant.auth {
                Auth::SessionOf(other) => endpoints.get(other).cloned(),
                _ => None,
            };
            let lender_grant = lender.as_ref().map(|lender| lender.grant());
            let identity = identity(driver, name, &[Some(grant), lender_grant], secrets);
            let known = lock(&self.open).get(&identity).and_then(Weak::upgrade);
            let endpoint = match known {
                Some(endpoint) => endpoint,
                None => {
                    let login = lender.as_ref().and_then(|lender| lender.login()).cloned();
                    let opened = Endpoint::open(name, grant, secrets, login, &self.cluster);
                    let opened = Arc::new(opened.map_err(|reason| NetworkError {
                        grant: name.clone(),
                        reason,
                    })?);
                    let mut open = lock(&self.open);
                    open.retain(|_, endpoint| endpoint.strong_count() > 0);
                    open.insert(identity, Arc::downgrade(&opened));
                    opened
                }
            };
            endpoints.insert(name.clone(), endpoint);
        }
        Ok(Endpoints(Arc::new(Opened {
            endpoints,
            ..Opened::default()
        })))
    }

    /// Ends all sessions, for the end of the host. A request that follows logs in again.
    pub async fn close(&self) {
        let open: Vec<Arc<Endpoint>> = {
            let open = lock(&self.open);
            open.values().filter_map(Weak::upgrade).collect()
        };
        // A session that two grants use is ended once.
        let logins = open.iter().filter_map(|endpoint| endpoint.login().cloned());
        let mut ends: tokio::task::JoinSet<()> = logins
            .map(|login| async move { login.end().await })
            .collect();
        let all = async { while ends.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_TIME, all).await.is_err() {
            tracing::warn!("some sessions with storage systems were not ended in time");
        }
    }
}

impl Endpoints {
    /// Answers the requests of one call from a conversation, without any connection. `secrets` need no values of those that the grants name.
    pub fn replaying(
        grants: &BTreeMap<String, NetworkGrant>,
        conversation: Conversation,
        secrets: Arc<Secrets>,
    ) -> Self {
        let replayed = Replayed {
            grants: grants.clone(),
            conversation,
        };
        Self(Arc::new(Opened {
            tape: Some(Tape::new(secrets, Some(replayed))),
            ..Opened::default()
        }))
    }

    /// The same storage systems; the conversation of one call with them is recorded. `secrets` are those of the document.
    pub fn recording(&self, secrets: Arc<Secrets>) -> Self {
        Self(Arc::new(Opened {
            endpoints: self.0.endpoints.clone(),
            tape: Some(Tape::new(secrets, None)),
            ..Opened::default()
        }))
    }

    /// What was recorded or replayed, and why a replay is not what was recorded; none: neither is done.
    pub fn conversation(&self) -> Result<Option<(Conversation, Option<TapeError>)>, TapeError> {
        let tape = self.0.tape.as_ref();
        tape.map(|tape| {
            // What the plugin's own logins yielded is known only after their answers.
            tape.learn(self.0.sessions.texts());
            tape.conversation()
        })
        .transpose()
    }

    /// Sends a request of which the authority is the name of a grant; its scheme is not used. The answer has any status.
    pub async fn send(
        &self,
        scope: &Scope,
        request: Request<Bytes>,
    ) -> Result<Response, SendError> {
        let name = request.uri().host().unwrap_or_default();
        let endpoints = &self.0.endpoints;
        let Some(tape) = &self.0.tape else {
            return granted(endpoints, name)?.send(scope, request).await;
        };
        // A request that the document refuses is no part of the conversation: a replay refuses it as well.
        let (grant, endpoint) = match &tape.replayed {
            Some(replayed) => (granted(&replayed.grants, name)?, None),
            None => {
                let endpoint = granted(endpoints, name)?;
                (endpoint.grant(), Some(endpoint))
            }
        };
        policy::check(name, grant, scope, &request)?;
        let number = tape.begin(&scope.request_secrets, &request);
        let outcome = match endpoint {
            Some(endpoint) => endpoint.send(scope, request).await,
            None => tape.answer(number, &scope.request_secrets, &request),
        };
        tape.learn(self.tokens());
        tape.learn(self.0.sessions.texts());
        tape.end(number, &outcome);
        outcome
    }

    /// Values that count as secrets now, beside those of the document: tokens, and the values of headers made of secrets.
    pub fn tokens(&self) -> Vec<Zeroizing<String>> {
        let endpoints = self.0.endpoints.values();
        endpoints
            .flat_map(|endpoint| endpoint.connector.tokens())
            .collect()
    }

    /// What the plugin's own logins yielded.
    pub fn sessions(&self) -> &SessionStore {
        &self.0.sessions
    }

    /// Whether no request can be sent.
    pub fn is_empty(&self) -> bool {
        self.0.endpoints.is_empty() && self.0.tape.is_none()
    }

    /// The counters of each grant, by its name.
    pub fn usage(&self) -> BTreeMap<String, Usage> {
        let endpoints = self.0.endpoints.iter();
        endpoints
            .map(|(name, endpoint)| (name.clone(), endpoint.connector.usage()))
            .collect()
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.endpoints.keys()).finish()
    }
}

/// What the document has for the authority of a request.
fn granted<'g, T>(grants: &'g BTreeMap<String, T>, name: &str) -> Result<&'g T, SendError> {
    grants.get(name).ok_or_else(|| SendError::NotGranted {
        grant: name.to_owned(),
        reason: match grants.is_empty() {
            true => {
                "the document has no grants.network; add an entry of this name with its `hosts`"
                    .to_owned()
            }
            false => {
                let known: Vec<&str> = grants.keys().map(String::as_str).collect();
                let known = known.join(", ");
                format!(
                    "it is not in grants.network, which has {known}; the authority of a request is the name of such an entry"
                )
            }
        },
    })
}

/// Two grants share connections and sessions if they are equal, with equal values of the secrets that they name.
fn identity(
    driver: &DriverName,
    name: &str,
    grants: &[Option<&NetworkGrant>],
    secrets: &Secrets,
) -> Identity {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    };
    add(driver.as_str().as_bytes());
    add(name.as_bytes());
    for grant in grants.iter().flatten() {
        add(format!("{grant:?}").as_bytes());
        for name in grant.secret_names() {
            add(name.as_bytes());
            add(secrets.get(name).unwrap_or_default().as_bytes());
        }
    }
    hash.finalize().into()
}

//! Reads the Secrets that documents name, and notices their changes.
//!
//! The watch requests metadata only, and only of named Secrets: no value is kept for it, and the account needs no right to list all of them.

use crate::error::{KubernetesError, words};
use crate::request::answered;
use futures::StreamExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::collections::BTreeSet;
use zeroize::{Zeroize, Zeroizing};

/// The name of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Reads values of Secrets.
#[derive(Clone)]
pub struct SecretReader(Client);

/// Why a value could not be read. It never contains the value.
#[derive(Debug, thiserror::Error)]
pub enum SecretUnread {
    /// The API server rejected the request or did not answer.
    #[error("the Secret {namespace}/{name} cannot be read: {said}")]
    Unanswered {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The error.
        said: String,
    },
    /// There is no such object.
    #[error("there is no Secret {namespace}/{name}")]
    Absent {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// It has no such key.
    #[error("the Secret {namespace}/{name} has no key `{key}`")]
    NoKey {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// The value is not text; the contract passes secrets as text.
    #[error("the value `{key}` of the Secret {namespace}/{name} is not UTF-8 text")]
    NotText {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
}

impl SecretReader {
    /// Reads with the rights of this client.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// One value. The library's buffer of the answer is not wiped: it is freed with the request.
    pub async fn read(
        &self,
        secret: &SecretName,
        key: &str,
    ) -> Result<Zeroizing<String>, SecretUnread> {
        let SecretName { namespace, name } = secret.clone();
        let api = Api::<Secret>::namespaced(self.0.clone(), &namespace);
        let what = format!("read Secret {namespace}/{name}");
        let found = match answered(what, api.get_opt(&name)).await {
            Ok(found) => found,
            Err(error) => {
                let said = match &error {
                    KubernetesError::Api { source, .. } => words(source),
                    other => other.in_words(),
                };
                return Err(SecretUnread::Unanswered {
                    namespace,
                    name,
                    said,
                });
            }
        };
        let Some(found) = found else {
            return Err(SecretUnread::Absent { namespace, name });
        };
        let mut value = None;
        for (its_key, mut bytes) in found.data.unwrap_or_default() {
            if its_key == key {
                value = Some(bytes.0);
            } else {
                bytes.0.zeroize();
            }
        }
        let key = key.to_owned();
        match value.map(String::from_utf8) {
            Some(Ok(text)) => Ok(Zeroizing::new(text)),
            Some(Err(error)) => {
                error.into_bytes().zeroize();
                Err(SecretUnread::NotText {
                    namespace,
                    name,
                    key,
                })
            }
            None => Err(SecretUnread::NoKey {
                namespace,
                name,
                key,
            }),
        }
    }
}

/// Calls `changed` whenever one of these Secrets may have changed; never returns.
pub async fn secrets_changed(
    client: Client,
    names: BTreeSet<SecretName>,
    changed: impl Fn(&SecretName),
) {
    let watches = names.iter().map(|name| follow(&client, name, &changed));
    join_all(watches).await;
    std::future::pending().await
}

async fn follow(client: &Client, secret: &SecretName, changed: &impl Fn(&SecretName)) {
    let api = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), &secret.namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={}", secret.name));
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut last = None;
    let mut listed = None;
    let mut lost = false;
    let mut first = true;
    while let Some(event) = events.next().await {
        let now = match event {
            Ok(Event::Init) => {
                listed = None;
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed = object.metadata.resource_version;
                continue;
            }
            Ok(Event::InitDone) => listed.take(),
            Ok(Event::Apply(object)) => object.metadata.resource_version,
            Ok(Event::Delete(_)) => None,
            Err(error) => {
                if !std::mem::replace(&mut lost, true) {
                    let reason = reason(&error);
                    let SecretName { namespace, name } = secret;
                    tracing::warn!(namespace, name, reason, "a Secret is not watched for now");
                }
                continue;
            }
        };
        lost = false;
        let before = std::mem::replace(&mut last, now);
        // The first list contains what was already read.
        if !std::mem::take(&mut first) && before != last {
            changed(secret);
        }
    }
}

fn reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => words(error),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_double::{Reply, api_double};
    use http::StatusCode;
    use serde_json::json;

    async fn read(
        reply: impl Fn() -> Reply + Send + Sync + 'static,
        key: &str,
    ) -> Result<String, String> {
        let (client, asked) = api_double(move |_| reply());
        let secret = SecretName {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
        };
        let read = SecretReader::new(client).read(&secret, key).await;
        assert_eq!(
            asked.lock().unwrap()[0].path,
            "/api/v1/namespaces/n/secrets/s"
        );
        read.map(|value| value.to_string())
            .map_err(|error| error.to_string())
    }

    fn secret() -> Reply {
        // "hunter22", and bytes that are not text.
        Reply::Object(
            json!({ "metadata": { "name": "s" }, "data": { "a": "aHVudGVyMjI=", "b": "//8=" } }),
        )
    }

    #[tokio::test]
    async fn one_value_is_read_by_its_name() {
        assert_eq!(read(secret, "a").await.unwrap(), "hunter22");
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_named_and_never_shown() {
        for (key, said) in [
            ("b", "the value `b` of the Secret n/s is not UTF-8 text"),
            ("c", "the Secret n/s has no key `c`"),
        ] {
            assert_eq!(read(secret, key).await.unwrap_err(), said);
        }
        let absent = || Reply::Failure(StatusCode::NOT_FOUND);
        assert_eq!(
            read(absent, "a").await.unwrap_err(),
            "there is no Secret n/s"
        );
        let forbidden = || Reply::Failure(StatusCode::FORBIDDEN);
        assert_eq!(
            read(forbidden, "a").await.unwrap_err(),
            "the Secret n/s cannot be read: not now (403)"
        );
    }
}

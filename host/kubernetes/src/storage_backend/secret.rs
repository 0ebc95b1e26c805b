//! Reads the Secrets that documents name, and notices their changes.
//!
//! The watch requests metadata only, and only of named Secrets: no value is kept for it, and the account needs no right to list all of them.

use crate::error::{KubernetesError, describe};
use crate::object_watch::watched;
use crate::request::answered;
use futures::StreamExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
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

/// Why a value could not be read, as a sentence. It never contains the value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SecretUnread(String);

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
        let SecretName { namespace, name } = secret;
        let object = format!("Secret {namespace}/{name}");
        let api = Api::<Secret>::namespaced(self.0.clone(), namespace);
        let found = answered(format!("read {object}"), api.get_opt(name))
            .await
            .map_err(|error| {
                let reason = match &error {
                    KubernetesError::Api { source, .. } => describe(source),
                    other => other.describe(),
                };
                SecretUnread(format!("the {object} cannot be read: {reason}"))
            })?;
        let found = found.ok_or_else(|| SecretUnread(format!("there is no {object}")))?;
        let mut value = None;
        for (its_key, mut bytes) in found.data.unwrap_or_default() {
            if its_key == key {
                value = Some(bytes.0);
            } else {
                bytes.0.zeroize();
            }
        }
        let no_key = || SecretUnread(format!("the {object} has no key `{key}`"));
        match String::from_utf8(value.ok_or_else(no_key)?) {
            Ok(text) => Ok(Zeroizing::new(text)),
            Err(error) => {
                error.into_bytes().zeroize();
                let reason = format!("the value `{key}` of the {object} is not UTF-8 text");
                Err(SecretUnread(reason))
            }
        }
    }
}

/// Calls `changed` whenever one of these Secrets may have changed since it was read, so also when its watch begins; never returns.
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
    let mut objects = std::pin::pin!(watched(api, &secret.name));
    let mut last = None;
    while let Some(object) = objects.next().await {
        let Ok(object) = object else { continue };
        let now = object.and_then(|it| it.metadata.resource_version);
        if last.as_ref() != Some(&now) {
            changed(secret);
        }
        last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::api_double::{Reply, api_double};
    use http::StatusCode;
    use serde_json::json;
    use std::time::Duration;
    use tokio::time::timeout;

    /// Longest wait for what must come: a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    async fn read(
        reply: impl Fn() -> Reply + Send + Sync + 'static,
        key: &str,
    ) -> Result<String, String> {
        let (client, requests) = api_double(move |_| reply());
        let secret = SecretName {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
        };
        let read = SecretReader::new(client).read(&secret, key).await;
        assert_eq!(
            requests.lock().unwrap()[0].path,
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
        for (key, message) in [
            ("b", "the value `b` of the Secret n/s is not UTF-8 text"),
            ("c", "the Secret n/s has no key `c`"),
        ] {
            assert_eq!(read(secret, key).await.unwrap_err(), message);
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

    /// It may have changed after it was read, and before the watch.
    #[tokio::test]
    async fn the_beginning_of_a_watch_is_a_possible_change() {
        let (client, _requests) =
            api_double(|request| match request.query.contains("watch=true") {
                true => Reply::Never,
                false => Reply::Object(json!({
                    "metadata": { "resourceVersion": "7" },
                    "items": [{ "metadata": { "name": "s", "resourceVersion": "5" } }],
                })),
            });
        let name = SecretName {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
        };
        let (sender, mut changed) = tokio::sync::mpsc::unbounded_channel();
        let watch = secrets_changed(client, BTreeSet::from([name.clone()]), move |changed| {
            sender.send(changed.clone()).unwrap();
        });
        tokio::select! {
            () = watch => unreachable!("it never returns"),
            changed = timeout(PATIENCE, changed.recv()) => assert_eq!(changed, Ok(Some(name))),
        }
    }
}

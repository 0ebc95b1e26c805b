//! Credentials for a registry from docker's `config.json`. Docker, podman, skopeo and Kubernetes' Secrets of the type
//! `kubernetes.io/dockerconfigjson` write it.
//!
//! Credential helpers are programs, and are not run: a node has none.

use crate::access::Login;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use wasmount_core::document::Reference;
use zeroize::Zeroizing;

/// Docker's name for its own registry in an entry (moby, `registry.IndexServer`).
const DOCKER_HUB_ENTRY: &str = "index.docker.io";
const DOCKER_HUB: &str = "docker.io";

/// Why a file of credentials cannot be used. The error never shows the file's content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DockerConfigError {
    /// Not docker's format.
    #[error("{0} is not docker's config.json: line {1}, column {2}")]
    NotJson(String, usize, usize),
    /// An entry that cannot be used.
    #[error("{0}: {1}")]
    Entry(String, String),
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Zeroizing<String>,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: Zeroizing<String>,
    #[serde(default, rename = "identitytoken")]
    identity_token: Zeroizing<String>,
}

/// The credentials of a file for the registry of an artifact, if it has some. `found` names the file, for messages.
pub fn login(
    config: &[u8],
    found: &str,
    reference: &Reference,
) -> Result<Option<Login>, DockerConfigError> {
    let config: Config = serde_json::from_slice(config).map_err(|error| {
        DockerConfigError::NotJson(found.to_owned(), error.line(), error.column())
    })?;
    let login = config.login(found, reference);
    login.map_err(|error| DockerConfigError::Entry(found.to_owned(), error))
}

impl Config {
    fn login(self, found: &str, reference: &Reference) -> Result<Option<Login>, String> {
        let registry = reference.registry();
        let repository = format!("{registry}/{}", reference.repository());
        let entries = self
            .auths
            .iter()
            .filter(|(key, _)| covers(key, &repository));
        // The entry of a repository before that of its registry (containers-auth.json(5)).
        let best = entries.max_by_key(|(key, _)| place(key).len());
        if let Some((key, entry)) = best {
            if !entry.identity_token.is_empty() {
                return Err(format!(
                    "the entry for {registry} has an identity token and no password, which is not supported; log in with a user and a password or an \
                     access token"
                ));
            }
            let login = entry.login();
            let bad_auth = || {
                format!(
                    "`auth` of the entry `{key}` is not the base64 of `user:password`; log in again"
                )
            };
            if let Some((user, password)) = login.ok_or_else(bad_auth)? {
                return Ok(Some(Login {
                    user,
                    password,
                    found: format!("the entry `{key}` of {found}"),
                }));
            }
        }
        let mut helpers = self.helpers.into_iter();
        let helper = helpers.find(|(key, _)| covers(key, &repository));
        let helper = helper.map(|(_, helper)| helper);
        match helper.or_else(|| self.store.filter(|_| best.is_some())) {
            None => Ok(None),
            Some(helper) => Err(format!(
                "the password for {registry} is held by the credential helper `{helper}`, which is not run here; log in without a helper \
                 (`skopeo login --authfile FILE {registry}` writes such a file) and name that file"
            )),
        }
    }
}

impl Entry {
    /// User and password; absent where a credential helper keeps them: docker leaves an empty entry then. `None` if they cannot be read.
    fn login(&self) -> Option<Option<(String, Zeroizing<String>)>> {
        if !self.username.is_empty() {
            return Some(Some((self.username.clone(), self.password.clone())));
        }
        if self.auth.is_empty() {
            return Some(None);
        }
        let bytes = Zeroizing::new(STANDARD.decode(self.auth.trim()).ok()?);
        let (user, password) = std::str::from_utf8(&bytes).ok()?.split_once(':')?;
        // Docker once padded them with zeros (moby, `cli/config/configfile`).
        let password = Zeroizing::new(password.trim_end_matches('\0').to_owned());
        Some(Some((user.to_owned(), password)))
    }
}

/// What an entry applies to: a host, optionally with the beginning of a repository.
fn place(key: &str) -> &str {
    let secure = key.strip_prefix("https://");
    match secure.or_else(|| key.strip_prefix("http://")) {
        // Docker writes a registry as a URL: `https://host/v1/`.
        Some(address) => address.split('/').next().unwrap_or_default(),
        None => key.trim_end_matches('/'),
    }
}

/// Whether an entry applies to this `host/repository`.
fn covers(key: &str, repository: &str) -> bool {
    let place = match place(key) {
        hub if hub == DOCKER_HUB_ENTRY || hub.starts_with("index.docker.io/") => DOCKER_HUB,
        other => other,
    };
    repository
        .strip_prefix(place)
        .is_some_and(|rest| !place.is_empty() && rest.starts_with('/'))
        || repository == place
}

#[cfg(test)]
mod tests;

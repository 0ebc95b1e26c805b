//! Credentials for a registry from docker's `config.json`. Docker, podman, skopeo and Kubernetes' Secrets of the type
//! `kubernetes.io/dockerconfigjson` write it.
//!
//! Credential helpers are programs, and are not run: a node has none.

use crate::access::{Credentials, Login};
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
    Entry(String, EntryError),
}

/// Why an entry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// A credential helper has the password: the registry, and the helper.
    #[error(
        "the password for {0} is held by the credential helper `{1}`, which is not run here; log in without a helper \
         (`skopeo login --authfile FILE {0}` writes such a file) and name that file"
    )]
    Helper(String, String),
    /// A token in place of a password.
    #[error(
        "the entry for {0} has an identity token and no password, which is not supported; log in with a user and a password or an access token"
    )]
    IdentityToken(String),
    /// Not base64 of `user:password`.
    #[error("`auth` of the entry `{0}` is not the base64 of `user:password`; log in again")]
    BadAuth(String),
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

/// The credentials of a file for the registry of an artifact. `found` names the file, for messages.
pub fn login(
    config: &[u8],
    found: &str,
    reference: &Reference,
) -> Result<Credentials, DockerConfigError> {
    let config: Config = serde_json::from_slice(config).map_err(|error| {
        DockerConfigError::NotJson(found.to_owned(), error.line(), error.column())
    })?;
    let login = config.login(found, reference);
    let login = login.map_err(|error| DockerConfigError::Entry(found.to_owned(), error))?;
    Ok(login.map_or(Credentials::Anonymous, Credentials::Login))
}

impl Config {
    fn login(self, found: &str, reference: &Reference) -> Result<Option<Login>, EntryError> {
        let registry = reference.registry();
        let wanted = format!("{registry}/{}", reference.repository());
        let entries = self.auths.iter().filter(|(key, _)| covers(key, &wanted));
        // The entry of a repository before that of its registry (containers-auth.json(5)).
        let best = entries.max_by_key(|(key, _)| place(key).len());
        if let Some((key, entry)) = best {
            if !entry.identity_token.is_empty() {
                return Err(EntryError::IdentityToken(registry.to_owned()));
            }
            let login = entry.login();
            if let Some((user, password)) = login.ok_or_else(|| EntryError::BadAuth(key.clone()))? {
                let place = format!("the entry `{key}` of {found}");
                return Ok(Some(Login::new(user, password, place)));
            }
        }
        let mut helpers = self.helpers.into_iter();
        let helper = helpers.find(|(key, _)| covers(key, &wanted));
        let helper = helper.map(|(_, helper)| helper);
        match helper.or_else(|| self.store.filter(|_| best.is_some())) {
            None => Ok(None),
            Some(helper) => Err(EntryError::Helper(registry.to_owned(), helper)),
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
    let (full, plain) = ("https://", "http://");
    let bare = key
        .strip_prefix(full)
        .or_else(|| key.strip_prefix(plain))
        .unwrap_or(key);
    // Docker writes a registry as a URL: `https://host/v1/`.
    let is_address = bare.len() != key.len();
    let host = bare.split('/').next().unwrap_or_default();
    match is_address {
        true => host,
        false => bare.trim_end_matches('/'),
    }
}

/// Whether an entry applies to this `host/repository`.
fn covers(key: &str, wanted: &str) -> bool {
    let place = match place(key) {
        hub if hub == DOCKER_HUB_ENTRY || hub.starts_with("index.docker.io/") => DOCKER_HUB,
        other => other,
    };
    wanted
        .strip_prefix(place)
        .is_some_and(|rest| !place.is_empty() && rest.starts_with('/'))
        || wanted == place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(config: &str, reference: &str) -> Result<Option<(String, String)>, DockerConfigError> {
        let reference = Reference::parse(reference).unwrap();
        Ok(match login(config.as_bytes(), "f", &reference)? {
            Credentials::Anonymous => None,
            Credentials::Login(login) => {
                Some((login.user().to_owned(), login.password().to_owned()))
            }
        })
    }

    fn pair(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.to_owned(), password.to_owned()))
    }

    #[test]
    fn the_nearest_entry_is_taken_however_it_is_written() {
        // base64 of `ann:a:b`, `bob:c` and `eve:d`.
        let config = r#"{"auths": {
            "a.b": {"auth": "YW5uOmE6Yg=="},
            "a.b/team": {"auth": "Ym9iOmM="},
            "https://c.d:5000/v2/": {"username": "eve", "password": "d"},
            "https://index.docker.io/v1/": {"auth": "ZXZlOmQ="}
        }}"#;
        for (reference, wanted) in [
            ("a.b/x:1", pair("ann", "a:b")),
            ("a.b/team/x:1", pair("bob", "c")),
            ("a.b/teamster:1", pair("ann", "a:b")),
            ("c.d:5000/x:1", pair("eve", "d")),
            ("docker.io/library/x:1", pair("eve", "d")),
            ("c.d/x:1", None),
            ("aa.b/x:1", None),
            ("a.bc/x:1", None),
        ] {
            assert_eq!(user(config, reference).unwrap(), wanted, "{reference}");
        }
        assert_eq!(user("{}", "a.b/x:1").unwrap(), None);
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_showing_it() {
        for (config, begin) in [
            (r#"{"auths": {"a.b": {"auth": "hunter2"}}}"#, "f: `auth` of"),
            (
                r#"{"auths": {"a.b": {"auth": "aHVudGVyMg=="}}}"#,
                "f: `auth` of",
            ),
            (
                r#"{"auths": {"a.b": {"identitytoken": "hunter2"}}}"#,
                "f: the entry for a.b has an identity token",
            ),
            (r#"{"auths": {"a.b": "hunter2"}}"#, "f is not docker's"),
            (
                r#"{"auths": {"a.b": {}}, "credsStore": "desktop"}"#,
                "f: the password for a.b is held by the credential helper `desktop`",
            ),
            (
                r#"{"credHelpers": {"a.b": "ecr-login"}}"#,
                "f: the password for a.b is held by the credential helper `ecr-login`",
            ),
        ] {
            let said = user(config, "a.b/x:1").unwrap_err().to_string();
            assert!(said.starts_with(begin), "{said}");
            assert!(
                !said.contains("hunter2") && !said.contains("aHVu"),
                "{said}"
            );
        }
        let store = r#"{"auths": {"a.b": {}}, "credsStore": "desktop"}"#;
        assert_eq!(user(store, "c.d/x:1").unwrap(), None);
    }
}

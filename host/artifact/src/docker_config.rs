//! Who we are to a registry, as docker's `config.json` has it. Docker, podman, skopeo and Kubernetes' Secrets of the type
//! `kubernetes.io/dockerconfigjson` write it.
//!
//! Helpers that hold passwords are programs, and are not run: a node has none.

use crate::access::{Credentials, Login};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use wasmount_core::document::Reference;
use zeroize::Zeroizing;

/// How docker writes the entry of its own registry (moby, `registry.IndexServer`).
const DOCKER_HUB_ENTRY: &str = "index.docker.io";
const DOCKER_HUB: &str = "docker.io";

/// Why a file of credentials cannot be used. It never shows what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DockerConfigError {
    /// Not the form.
    #[error("{found} is not docker's config.json: line {line}, column {column}")]
    NotJson {
        /// Which file.
        found: String,
        /// Where in it.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// A program has the password.
    #[error(
        "{found}: the password for {registry} is held by the credential helper `{helper}`, which is not run here; log in without a helper \
         (`skopeo login --authfile FILE {registry}` writes such a file) and name that file"
    )]
    Helper {
        /// Which file.
        found: String,
        /// For which registry.
        registry: String,
        /// Which program.
        helper: String,
    },
    /// A token in place of a password.
    #[error(
        "{found}: the entry for {registry} has an identity token and no password, which is not supported; log in with a user and a password or \
         an access token"
    )]
    IdentityToken {
        /// Which file.
        found: String,
        /// For which registry.
        registry: String,
    },
    /// Not base64 of `user:password`.
    #[error(
        "{found}: `auth` of the entry `{entry}` is not the base64 of `user:password`; log in again"
    )]
    BadAuth {
        /// Which file.
        found: String,
        /// Which entry.
        entry: String,
    },
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

/// Who the file says we are to the registry of an artifact. `found` names the file, for messages.
pub fn login(
    config: &[u8],
    found: &str,
    reference: &Reference,
) -> Result<Credentials, DockerConfigError> {
    let config: Config =
        serde_json::from_slice(config).map_err(|error| DockerConfigError::NotJson {
            found: found.to_owned(),
            line: error.line(),
            column: error.column(),
        })?;
    let wanted = format!("{}/{}", reference.registry(), reference.repository());
    let best = config
        .auths
        .iter()
        .filter(|(key, _)| covers(key, &wanted))
        // The entry of a repository before that of its registry (containers-auth.json(5)).
        .max_by_key(|(key, _)| place(key).len());
    if let Some((key, entry)) = best
        && let Some(login) = entry.login(key, found, reference)?
    {
        return Ok(Credentials::Login(login));
    }
    let helper = config
        .helpers
        .iter()
        .find(|(key, _)| covers(key, &wanted))
        .map(|(_, helper)| helper)
        .or_else(|| config.store.as_ref().filter(|_| best.is_some()));
    match helper {
        None => Ok(Credentials::Anonymous),
        Some(helper) => Err(DockerConfigError::Helper {
            found: found.to_owned(),
            registry: reference.registry().to_owned(),
            helper: helper.clone(),
        }),
    }
}

impl Entry {
    /// Absent where a helper keeps it: docker leaves an empty entry then.
    fn login(
        &self,
        key: &str,
        found: &str,
        reference: &Reference,
    ) -> Result<Option<Login>, DockerConfigError> {
        if !self.identity_token.is_empty() {
            return Err(DockerConfigError::IdentityToken {
                found: found.to_owned(),
                registry: reference.registry().to_owned(),
            });
        }
        let place = format!("the entry `{key}` of {found}");
        if !self.username.is_empty() {
            let (user, password) = (self.username.clone(), self.password.clone());
            return Ok(Some(Login::new(user, password, place)));
        }
        if self.auth.is_empty() {
            return Ok(None);
        }
        let bad = || DockerConfigError::BadAuth {
            found: found.to_owned(),
            entry: key.to_owned(),
        };
        let bytes = Zeroizing::new(STANDARD.decode(self.auth.trim()).map_err(|_| bad())?);
        let text = std::str::from_utf8(&bytes).map_err(|_| bad())?;
        let (user, password) = text.split_once(':').ok_or_else(bad)?;
        // Docker once padded them with zeros (moby, `cli/config/configfile`).
        let password = Zeroizing::new(password.trim_end_matches('\0').to_owned());
        Ok(Some(Login::new(user.to_owned(), password, place)))
    }
}

/// What an entry is for: a host, perhaps with the beginning of a repository.
fn place(key: &str) -> &str {
    let (full, plain) = ("https://", "http://");
    let bare = key
        .strip_prefix(full)
        .or_else(|| key.strip_prefix(plain))
        .unwrap_or(key);
    // Docker's own way to write a registry is its address: `https://host/v1/`.
    let is_address = bare.len() != key.len();
    let host = bare.split('/').next().unwrap_or_default();
    match is_address {
        true => host,
        false => bare.trim_end_matches('/'),
    }
}

/// Whether an entry is for this `host/repository`.
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

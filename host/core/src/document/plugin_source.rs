//! The source of a plugin, and its required signers.
//!
//! This module knows the syntax of an artifact's name, not the registry that stores it.

use crate::document::Wasi;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// Prefix of an artifact's name in a document and on the command line.
pub const REFERENCE_SCHEME: &str = "oci://";
/// Prefix of the digest of a component or of a manifest, before its hexadecimal digits.
pub const DIGEST_PREFIX: &str = "sha256:";

/// Hexadecimal digits of a SHA-256 digest.
const DIGEST_DIGITS: usize = 64;
/// Longest name of a repository and longest tag, in bytes (OCI distribution specification 1.1, "Pulling manifests").
const REPOSITORY_BYTES: usize = 255;
const TAG_BYTES: usize = 128;

/// The source of a component, and the requirements for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSource {
    /// The location.
    pub place: PluginPlace,
    /// `sha256:..` of the component itself, checked if given.
    pub digest: Option<String>,
    /// The part of WASI that it may import.
    pub wasi: Wasi,
    /// The required signers.
    pub signers: Signers,
}

/// The location of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PluginPlace {
    /// A file; absolute, or relative to the document.
    File(PathBuf),
    /// An artifact in a registry.
    Registry(RegistryPlace),
}

/// An artifact in a registry, and the access to that registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryPlace {
    /// The artifact.
    pub reference: Reference,
    /// The credentials of the pull: docker's `config.json`, or a Secret of the type `kubernetes.io/dockerconfigjson`.
    pub credentials: Option<super::SecretSource>,
    /// Certificates, PEM, that are trusted in addition to the system's; absolute, or relative to the document.
    pub ca_file: Option<PathBuf>,
    /// Uses HTTP without TLS.
    pub plain_http: bool,
}

/// The signatures that a component needs. Both empty: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signers {
    /// At least one of these, if the list is not empty.
    pub any_of: Vec<PublicKey>,
    /// All of these.
    pub all_of: Vec<PublicKey>,
}

/// A public key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PublicKey {
    /// In a file; absolute, or relative to the document.
    File(PathBuf),
    /// In the document itself.
    Inline(String),
}

/// The name of an artifact: `host[:port]/repository[:tag][@sha256:..]`, with a tag, a digest or both.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Not the name of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidReference(&'static str);

/// A name is printed, logged and transmitted, so it must not contain a secret.
const CREDENTIALS: InvalidReference = InvalidReference(
    "has a user or a password before the registry, where they would be logged: they belong in docker's `config.json` \
     (`registry.credentials` of a document, --registry-config of a command)",
);

impl Signers {
    /// Whether no signature is required.
    pub fn is_empty(&self) -> bool {
        self.any_of.is_empty() && self.all_of.is_empty()
    }

    /// All keys that are named.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.any_of.iter().chain(&self.all_of)
    }

    /// The same, with relative files below `base`.
    pub fn resolved(mut self, base: &Path) -> Self {
        for key in self.any_of.iter_mut().chain(&mut self.all_of) {
            if let PublicKey::File(path) = key {
                *path = base.join(&*path);
            }
        }
        self
    }
}

impl Reference {
    /// Parses a name, with or without the prefix `oci://`. Unlike docker's names it has no defaults: the registry, and a tag or digest, are required.
    pub fn parse(text: &str) -> Result<Self, InvalidReference> {
        let text = text.strip_prefix(REFERENCE_SCHEME).unwrap_or(text);
        let (name, digest) = match text.rsplit_once('@') {
            None => (text, None),
            Some(_) if has_credentials(text) => return Err(CREDENTIALS),
            Some((name, digest)) if is_digest(digest) => (name, Some(digest.to_owned())),
            Some(_) => {
                return Err(InvalidReference(
                    "has a digest that is not `sha256:` and 64 lower-case hexadecimal digits",
                ));
            }
        };
        let (registry, rest) = name.split_once('/').ok_or(InvalidReference(
            "must be `oci://registry/repository:tag`, or `@sha256:..` in place of the tag",
        ))?;
        let (repository, tag) = match rest.rsplit_once(':') {
            None => (rest, None),
            Some((repository, tag)) => (repository, Some(tag.to_owned())),
        };
        let problem = if !is_registry(registry) {
            "has no registry before its first `/`: a host name with a dot or a port, or `localhost`"
        } else if !is_repository(repository) {
            "has a repository that is not lower-case words of letters, digits, `.`, `_` and `-`, with `/` between"
        } else if tag.as_deref().is_some_and(|tag| !is_tag(tag)) {
            "has a tag that is not 1 to 128 letters, digits, `.`, `_` and `-`"
        } else if tag.is_none() && digest.is_none() {
            "names neither a tag nor a digest; write `:tag` or `@sha256:..` after it"
        } else {
            return Ok(Self {
                registry: registry.to_owned(),
                repository: repository.to_owned(),
                tag,
                digest,
            });
        };
        Err(InvalidReference(problem))
    }

    /// Host, with its port if one is named.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The name within the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if one is named.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, if it is pinned.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The reference for the registry: the digest if there is one, else the tag.
    pub fn digest_or_tag(&self) -> &str {
        self.digest().or(self.tag()).unwrap_or_default()
    }

    /// The same artifact by this digest only.
    pub fn pinned(&self, digest: String) -> Self {
        Self {
            tag: None,
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// Another tag of the same repository.
    pub fn tagged(&self, tag: String) -> Self {
        Self {
            tag: Some(tag),
            digest: None,
            ..self.clone()
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            registry,
            repository,
            tag,
            digest,
        } = self;
        write!(f, "{REFERENCE_SCHEME}{registry}/{repository}")?;
        if let Some(tag) = tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// An invalid artifact name for a message, without the part where credentials could be.
pub fn without_credentials(text: &str) -> Cow<'_, str> {
    if !has_credentials(text) {
        return Cow::Borrowed(text);
    }
    let (name, digest) = split_digest(text);
    let behind = name.rsplit('@').next().unwrap_or_default();
    let scheme = match name.starts_with(REFERENCE_SCHEME) {
        true => REFERENCE_SCHEME,
        false => "",
    };
    Cow::Owned(format!("{scheme}..@{behind}{digest}"))
}

/// Whether an `@` precedes no digest. One before the first `/` never does.
fn has_credentials(text: &str) -> bool {
    let (name, _) = split_digest(text);
    name.contains('@')
}

/// Splits the text into the part before the digest, and the digest with its `@`, valid or not.
fn split_digest(text: &str) -> (&str, &str) {
    let (name, digest) = text.split_at(text.rfind('@').unwrap_or(text.len()));
    match digest.strip_prefix('@') {
        Some(digits) if digits.starts_with(DIGEST_PREFIX) => (name, digest),
        _ => (text, ""),
    }
}

/// `sha256:` and 64 lower-case hexadecimal digits.
pub fn is_digest(text: &str) -> bool {
    text.strip_prefix(DIGEST_PREFIX).is_some_and(is_sha256)
}

/// 64 lower-case hexadecimal digits.
pub(super) fn is_sha256(digits: &str) -> bool {
    let lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.len() == DIGEST_DIGITS && digits.bytes().all(lower_hex)
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        None => (text, None),
        Some((host, port)) => (host, Some(port)),
    };
    // An IPv6 address is written in brackets.
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let named = |host: &str| {
        !host.is_empty()
            && host
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
    };
    let known = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => named(host),
    };
    let port_is_number = port.is_none_or(|port| port.parse::<u16>().is_ok());
    known
        && port_is_number
        && (port.is_some() || host.contains('.') || host == "localhost" || bracketed.is_some())
}

fn is_repository(text: &str) -> bool {
    let segment = |segment: &str| {
        let inner =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
        let end = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        segment.bytes().all(inner) && end(segment.bytes().next()) && end(segment.bytes().last())
    };
    text.len() <= REPOSITORY_BYTES && text.split('/').all(segment)
}

fn is_tag(text: &str) -> bool {
    let first = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    let rest = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    text.len() <= TAG_BYTES && first(text.bytes().next()) && text.bytes().all(rest)
}

#[cfg(test)]
mod tests;

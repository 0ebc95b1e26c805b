//! Flags of every command that uses a registry: credentials, certificates, time limits; and the default location of the credentials file.
//!
//! These commands run as their user, with that user's files; the host fetches differently (`host::fetching`).

use super::common::wrong;
use crate::config::Configured;
use crate::fault::Fault;
use crate::progress_bar;
use crate::regular_file;
use clap::Args;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasmount_artifact::{Access, Login, Registry, TransferLimits, login, system_certificates};
use wasmount_core::document::{PluginPlace, Reference, SecretSource};

/// Largest file of credentials and of certificates, in bytes: what a Kubernetes Secret can hold.
pub(super) const SMALL_FILE_BYTES: u64 = 1 << 20;

/// A day, in seconds: longer than any transfer takes, and small enough for every clock.
const MOST_TIMEOUT: u64 = 86_400;

/// How a registry is reached.
#[derive(Debug, Clone, Args)]
pub(super) struct RegistryFlags {
    /// File with registry credentials, in the format of docker's config.json [default: that of docker, podman or skopeo]
    #[arg(long, value_name = "FILE", env)]
    registry_config: Option<PathBuf>,

    /// CA certificates (PEM) to trust in addition to the system's
    #[arg(long, value_name = "FILE", env)]
    ca_file: Option<PathBuf>,

    /// Use HTTP without TLS
    #[arg(long, env)]
    plain_http: bool,

    /// Timeout of a transfer in seconds, retries included
    #[arg(
        long,
        value_name = "SECONDS",
        env,
        default_value_t = TransferLimits::default().total.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=MOST_TIMEOUT)
    )]
    timeout: u64,
}

impl RegistryFlags {
    /// Prepares a connection to the registry of an artifact, with a progress bar on a terminal.
    pub(super) fn connect(&self, reference: &Reference) -> Result<Registry, Fault> {
        let access = self.access(reference)?;
        Registry::connect(reference, access, progress_bar::progress())
            .map_err(Fault::failed("the client of the registry cannot be set up"))
    }

    /// The same with a document: where no flag is given, the document's value is used, if it names that registry.
    pub(super) fn connect_under(
        &self,
        reference: &Reference,
        configured: &Configured,
    ) -> Result<Registry, Fault> {
        let place = match &configured.document.plugin.place {
            PluginPlace::Registry(it) if it.reference.registry() == reference.registry() => it,
            _ => return self.connect(reference),
        };
        let config = match &place.credentials {
            Some(SecretSource::File(path)) => Some(path.clone()),
            // A user has credentials of their own.
            Some(SecretSource::Object { .. }) | None => None,
        };
        let merged = Self {
            registry_config: self.registry_config.clone().or(config),
            ca_file: self.ca_file.clone().or(place.ca_file.clone()),
            plain_http: self.plain_http || place.plain_http,
            timeout: self.timeout,
        };
        merged.connect(reference)
    }

    fn access(&self, reference: &Reference) -> Result<Access, Fault> {
        let extra_ca = match &self.ca_file {
            None => None,
            Some(path) => Some(read("--ca-file", path)?),
        };
        Ok(Access {
            credentials: self.credentials(reference)?,
            system_ca: system_certificates(),
            extra_ca,
            plain_http: self.plain_http,
            limits: TransferLimits {
                total: Duration::from_secs(self.timeout),
                ..TransferLimits::default()
            },
        })
    }

    fn credentials(&self, reference: &Reference) -> Result<Option<Login>, Fault> {
        let mut usual = usual_places(|name| env::var_os(name).map(PathBuf::from));
        let usual = || usual.find(|it| it.is_file());
        let Some(path) = self.registry_config.clone().or_else(usual) else {
            return Ok(None);
        };
        let config = read("--registry-config", &path)?;
        login(&config, &path.display().to_string(), reference)
            .map_err(Fault::failed("the credentials cannot be used"))
    }
}

/// Where other tools keep credentials (docker's `config.json`, containers-auth.json(5)): configured paths before default paths.
fn usual_places(variable: impl Fn(&str) -> Option<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let below = |name: &str, rest: &str| variable(name).map(|folder| folder.join(rest));
    [
        variable("REGISTRY_AUTH_FILE"),
        below("DOCKER_CONFIG", "config.json"),
        below("XDG_RUNTIME_DIR", "containers/auth.json"),
        below("HOME", ".docker/config.json"),
    ]
    .into_iter()
    .flatten()
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, Fault> {
    regular_file::read(path, SMALL_FILE_BYTES).map_err(|refused| wrong(flag, path, refused))
}

/// An artifact if the argument starts as one, else a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// In a registry.
    Artifact(Reference),
    /// On this machine.
    File(PathBuf),
}

/// Parses the argument; a file may have any name except `oci://..`.
pub(super) fn source(value: &str) -> Result<Source, String> {
    if !value.starts_with(wasmount_core::document::REFERENCE_SCHEME) {
        return Ok(Source::File(PathBuf::from(value)));
    }
    artifact(value).map(Source::Artifact)
}

/// Parses the name of an artifact.
pub(super) fn artifact(value: &str) -> Result<Reference, String> {
    Reference::parse(value).map_err(|invalid| format!("it {invalid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_where_other_tools_have_them() {
        let all = |name: &str| Some(PathBuf::from(format!("/{name}")));
        assert_eq!(
            usual_places(all).collect::<Vec<_>>(),
            [
                "/REGISTRY_AUTH_FILE",
                "/DOCKER_CONFIG/config.json",
                "/XDG_RUNTIME_DIR/containers/auth.json",
                "/HOME/.docker/config.json"
            ]
            .map(PathBuf::from)
        );
        assert_eq!(usual_places(|_| None).count(), 0);
    }

    #[test]
    fn what_begins_as_an_artifact_is_one() {
        let file = source("localhost:5000/x.wasm").unwrap();
        assert_eq!(file, Source::File("localhost:5000/x.wasm".into()));
        let reference = Reference::parse("a.b/c:1").unwrap();
        assert_eq!(
            source("oci://a.b/c:1").unwrap(),
            Source::Artifact(reference)
        );
        assert!(source("oci://a.b/c").unwrap_err().contains("neither a tag"));
    }
}

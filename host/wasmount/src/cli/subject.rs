//! The subject of a command: a component, and the document with which it would be served.

use super::common::makeable;
use crate::config::{self, Configured};
use crate::fault::Fault;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use wasmount_core::document::{PluginPlace, SecretSource, StorageBackend, Wasi, raw};

/// The driver name without a document.
const DRIVER: &str = "workbench.wasmount.io";

/// Of the commands that look inside a plugin.
#[derive(Debug, Args)]
pub(super) struct CacheFlags {
    /// Cache directory of compiled plugins, owned by this user only, which makes the next command faster [default: a temporary directory]
    #[arg(long, value_name = "DIR", env)]
    cache: Option<PathBuf>,
}

impl CacheFlags {
    /// The directory; it is created if it is missing.
    pub(super) fn directory(&self) -> Result<Option<PathBuf>, Fault> {
        let Some(directory) = &self.cache else {
            return Ok(None);
        };
        let absolute =
            std::path::absolute(directory).map_err(Fault::failed("--cache is no path"))?;
        makeable("--cache", &absolute)?;
        Ok(Some(absolute))
    }
}

/// Of the commands that read the secrets of a document.
#[derive(Debug, Args)]
pub(super) struct SecretFlags {
    /// Read a secret of the document from this file, such as one from a Kubernetes Secret; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = name_and_file, requires = "backend")]
    secret: Vec<(String, PathBuf)>,
}

impl SecretFlags {
    /// Replaces the document's sources of secrets by the files.
    pub(super) fn put(&self, configured: &mut Configured) -> Result<(), Fault> {
        for (name, file) in &self.secret {
            let unknown = || Fault::flag("--secret", name, "the document has no such secret");
            let source = configured.document.secrets.get_mut(name);
            *source.ok_or_else(unknown)? = SecretSource::File(file.clone());
        }
        Ok(())
    }
}

/// Parses a name and the file of its value.
pub(super) fn name_and_file(value: &str) -> Result<(String, PathBuf), String> {
    match value.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            let file = std::path::absolute(file).map_err(|error| error.to_string())?;
            Ok((name.to_owned(), file))
        }
        _ => Err("is not NAME=FILE".to_owned()),
    }
}

/// A component with the document that names it, or with a document that grants only pools of these names.
pub(super) fn subject(
    file: &Path,
    backend: Option<&Path>,
    pools: &[String],
) -> Result<Configured, Fault> {
    let mut configured = document(backend, pools)?;
    let path = std::path::absolute(file).map_err(Fault::failed(format!(
        "{} is no path of a component",
        file.display()
    )))?;
    configured.document.plugin.place = PluginPlace::File(path);
    Ok(configured)
}

/// The document without a component.
pub(super) fn document(backend: Option<&Path>, pools: &[String]) -> Result<Configured, Fault> {
    match backend {
        Some(document) => Ok(config::load_one(document)?),
        None => without_document(pools),
    }
}

fn without_document(pools: &[String]) -> Result<Configured, Fault> {
    let granted = pools.iter().map(|name| {
        let grant = json!({ "path": format!("pools/{name}"), "fullCopies": true });
        (name.clone(), grant)
    });
    let document = json!({
        "apiVersion": raw::API_VERSION,
        "kind": raw::KIND,
        "metadata": { "name": "workbench" },
        "spec": {
            "driverName": DRIVER,
            "plugin": { "path": "plugin.wasm" },
            "grants": { "pools": granted.collect::<serde_json::Map<_, _>>() },
        },
    });
    let impossible = "a document for the component cannot be made";
    let document: raw::Document =
        serde_json::from_value(document).map_err(Fault::failed(impossible))?;
    let mut document = StorageBackend::try_from(document).map_err(Fault::failed(impossible))?;
    // All of WASI, which a language's runtime may import: everything beyond `minimal` is denied at each use.
    document.plugin.wasi = Wasi::Full;
    Ok(Configured {
        document,
        folder: PathBuf::new(),
        file: PathBuf::new(),
    })
}

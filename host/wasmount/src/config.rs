//! The documents of one command line: read, checked, and distinct from one another.
//!
//! It does not read what a document refers to: plugin and secrets are read at admission, so that one backend with a missing file delays no
//! other.

mod complaint;
mod places;
mod remaining;
mod yaml;

pub(crate) use complaint::{Complaint, Complaints};

use crate::regular_file::{self, Refused};
use places::Places;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wasmount_core::document::{KeyPath, PluginPlace, SecretSource, StorageBackend};

/// Largest document, in bytes: what etcd, and so a CRD, can hold at most by default.
const DOCUMENT_BYTES: u64 = 3 << 19;

/// The backend of one document of the command line.
#[derive(Debug, Clone)]
pub(crate) struct Configured {
    /// The document.
    pub(crate) document: StorageBackend,
    /// The directory of the document: relative paths start here.
    pub(crate) folder: PathBuf,
    /// The absolute path of the document; empty for a document that a command generated.
    pub(crate) file: PathBuf,
}

/// Reads all documents. All errors are reported at once, one line each.
pub(crate) fn load(files: &[PathBuf]) -> Result<Vec<Configured>, Complaints> {
    let mut configured = Vec::new();
    let mut complaints = Vec::new();
    let mut names = BTreeMap::new();
    for file in files {
        let (document, places) = match parse(file) {
            Ok(parsed) => parsed,
            Err(mut of_file) => {
                complaints.append(&mut of_file);
                continue;
            }
        };
        for (key, name, noun) in [
            ("spec.driverName", document.driver_name.as_str(), "driver"),
            ("metadata.name", document.name.as_str(), "name"),
        ] {
            let Some(other) = names.insert((key, name.to_owned()), file) else {
                continue;
            };
            let key = KeyPath::of(key);
            let other = other.display();
            complaints.push(Complaint {
                file: file.clone(),
                line: places.line_of(&key),
                key: Some(key),
                reason: format!(
                    "`{name}` is the {noun} of {other} too; each document needs one of its own"
                ),
            });
        }
        configured.push(resolved(file, document));
    }
    if complaints.is_empty() {
        Ok(configured)
    } else {
        Err(Complaints(complaints))
    }
}

/// Whether a host can serve these documents from their files: steps need several hosts, and one of them that decides.
pub(crate) fn of_one_host(all: &[Configured]) -> Result<(), Complaints> {
    let with_steps = all.iter().filter(|it| it.document.rollout.is_some());
    let complaints = with_steps.map(|it| Complaint {
        file: it.file.clone(),
        line: None,
        key: Some(KeyPath::of("spec.rollout")),
        reason: "is for an object of the API server only: a file is served by one host; remove the key, or serve the object with --storage-backends"
            .to_owned(),
    });
    let complaints: Vec<_> = complaints.collect();
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(Complaints(complaints)),
    }
}

/// Reads one document without the others.
pub(crate) fn load_one(file: &Path) -> Result<Configured, Complaints> {
    let (document, _) = parse(file).map_err(Complaints)?;
    Ok(resolved(file, document))
}

fn parse(file: &Path) -> Result<(StorageBackend, Places), Vec<Complaint>> {
    let text = read(file).map_err(|complaint| vec![complaint])?;
    yaml::parse(file, &text)
}

fn read(file: &Path) -> Result<String, Complaint> {
    let unreadable = |reason: String| Complaint {
        file: file.to_owned(),
        line: None,
        key: None,
        reason,
    };
    let bytes = regular_file::read(file, DOCUMENT_BYTES).map_err(|refused| {
        unreadable(match refused {
            Refused::TooLarge { .. } => format!("{refused}; a StorageBackend is a page of YAML"),
            Refused::NotRegular | Refused::Unreadable(_) => refused.to_string(),
        })
    })?;
    String::from_utf8(bytes).map_err(|_| unreadable("is not UTF-8 text".to_owned()))
}

/// Relative paths of a document start at its directory: it then works from any working directory.
fn resolved(file: &Path, mut document: StorageBackend) -> Configured {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().map(Path::to_owned).unwrap_or_default();
    let mut secrets: Vec<&mut SecretSource> = document.secrets.values_mut().collect();
    if let PluginPlace::Registry(place) = &mut document.plugin.place {
        secrets.extend(&mut place.credentials);
        if let Some(path) = &mut place.ca_file {
            *path = folder.join(&*path);
        }
    }
    for secret in secrets {
        if let SecretSource::File(path) = secret {
            *path = folder.join(&*path);
        }
    }
    let signers = std::mem::take(&mut document.plugin.signers);
    document.plugin.signers = signers.resolved(&folder);
    Configured {
        document,
        folder,
        file,
    }
}

#[cfg(test)]
mod tests;

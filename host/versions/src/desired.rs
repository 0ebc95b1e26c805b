//! What is wanted, and where its parts come from.

use crate::plugin_file::Component;
use crate::refusal::Refusal;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use wasmount_core::document::{PluginPlace, StorageBackend};
use wasmount_core::secrets::Secrets;

/// A backend as an administrator wants it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Desired {
    /// Its document.
    pub document: StorageBackend,
    /// Where relative paths of the document begin.
    pub folder: PathBuf,
    /// Where the document comes from.
    pub from: DesiredFrom,
}

impl Desired {
    /// Where its component should be.
    pub(crate) fn place(&self) -> String {
        match &self.document.plugin.place {
            PluginPlace::File(path) => self.folder.join(path).display().to_string(),
            PluginPlace::Registry(place) => place.reference.to_string(),
        }
    }
}

/// Where a document comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DesiredFrom {
    /// A file.
    File(PathBuf),
    /// A Kubernetes object, by name.
    Object(String),
}

/// What begins as a component, was had from where its document says, and whose digest and signatures are as the document wants.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Its bytes, and their digest.
    pub component: Component,
    /// Where from.
    pub origin: Origin,
    /// Names of keys that signed it, of those that the document names.
    pub signed_by: Vec<String>,
}

/// Where a component came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// An artifact.
    Registry {
        /// Its name, pinned to the digest of its manifest.
        reference: String,
        /// As the document names it.
        asked: String,
    },
}

/// Gets what a document points to.
#[async_trait]
pub trait Sources: Send + Sync + 'static {
    /// The component: found, of bearable size, with the digest and the signatures that the document wants, and no other kind of file; it is
    /// refused for the first of these that is not so.
    async fn component(&self, desired: &Desired) -> Result<Fetched, Refusal>;
    /// The backend's secrets, as they are now.
    async fn secrets(&self, desired: &Desired) -> Result<Secrets, Refusal>;
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Registry { reference, .. } => f.write_str(reference),
        }
    }
}

/// Where to go back to.
#[derive(Debug, Clone, Copy, Default)]
pub struct RollbackRequest {
    /// None: to the version before.
    pub to: Option<u64>,
    /// Only if this version serves; none: whichever does.
    pub from: Option<u64>,
}

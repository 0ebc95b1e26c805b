//! The desired revision of a backend, and the sources of its parts.

use crate::plugin_file::Component;
use crate::refusal::Refusal;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wasmount_core::document::{PluginPlace, StorageBackend};
use wasmount_core::secrets::Secrets;

/// The desired revision of a backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Desired {
    /// Its document.
    pub document: StorageBackend,
    /// The folder that relative paths of the document start from.
    pub folder: PathBuf,
    /// Where the document is.
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

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DesiredFrom {
    /// A file.
    File(PathBuf),
    /// A Kubernetes object, by name.
    Object(String),
}

/// A component that was fetched from where its document says: its bytes begin as a component does, and its digest and signatures are as the document
/// requires.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Its bytes, and their digest.
    pub component: Component,
    /// Where it was fetched from: a path, or a reference with the digest of its manifest.
    pub origin: String,
    /// Names of the document's keys that signed it.
    pub signed_by: Vec<String>,
}

/// Fetches what a document refers to.
#[async_trait]
pub trait Sources: Send + Sync + 'static {
    /// The component: found, small enough, with the digest and the signatures that the document requires, and of the right kind. It is rejected for
    /// the first of these that does not hold.
    async fn component(&self, desired: &Desired) -> Result<Fetched, Refusal>;
    /// The backend's secrets, as they are now.
    async fn secrets(&self, desired: &Desired) -> Result<Secrets, Refusal>;
}

/// The target of a rollback.
#[derive(Debug, Clone, Copy, Default)]
pub struct RollbackRequest {
    /// None: to the version before.
    pub to: Option<u64>,
    /// Only if this version serves; none: whichever serves.
    pub from: Option<u64>,
}

//! What distinguishes two versions. Where the component is, who signed it, and the `versions` settings of the document do not.
//!
//! Secrets are not part of it: a keyed mark of them is compared and written (`secrets_mark`), never a digest without a key.

use crate::desired::Desired;
use crate::plugin_file::digest_of;
use wasmount_core::document::{PluginSource, StorageBackend};

/// The identity of a version, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) digest: String,
    pub(crate) settings_digest: String,
}

/// The identity of a version with its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CandidateKey {
    pub(crate) identity: Identity,
    /// The mark of the secrets.
    pub(crate) secrets: String,
}

/// `sha256:..` of what a document says besides the component.
pub(crate) fn settings_digest(document: &StorageBackend) -> String {
    let StorageBackend {
        settings,
        secrets,
        grants,
        limits,
        hidden,
        csi_driver,
        plugin: PluginSource { wasi, .. },
        ..
    } = document;
    let parts = (settings, secrets, grants, limits, hidden, csi_driver, wasi);
    // It fails only for maps whose keys are not strings; there is none. Then every version would be a new one, which is the safe side.
    let bytes = serde_json::to_vec(&parts).unwrap_or_default();
    digest_of(&bytes)
}

/// The digest of the version that a document desires: its `versions` settings and its signers do not change it.
pub(crate) fn desired_digest(desired: &Desired) -> String {
    let StorageBackend {
        plugin: PluginSource { place, digest, .. },
        ..
    } = &desired.document;
    let parts = (place, digest, settings_digest(&desired.document));
    // It fails only for maps whose keys are not strings; there is none. Then a hold would stay, which is the safe side.
    let bytes = serde_json::to_vec(&parts).unwrap_or_default();
    digest_of(&bytes)
}

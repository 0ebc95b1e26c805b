//! What makes a version another one. Where the component lies, who signed it and how versions follow one another make no other version.
//!
//! Secrets are no part of it: of them a mark under a key is compared and written (`secrets_mark`), never a digest without one.

use crate::desired::Desired;
use crate::plugin_file::digest_of;
use wasmount_core::document::{PluginSource, StorageBackend};

/// A version, but for its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) digest: String,
    pub(crate) settings_digest: String,
}

/// A version with its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CandidateKey {
    pub(crate) identity: Identity,
    /// Their mark.
    pub(crate) secrets: String,
}

/// `sha256:..` of what a document says beside the component.
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
    // It fails for maps whose keys are no words; there is none. Then every version is another one, which is the safe side.
    let bytes = serde_json::to_vec(&parts).unwrap_or_default();
    digest_of(&bytes)
}

/// Of which version a document means: how versions follow one another and who signs them do not change it.
pub(crate) fn desired_digest(desired: &Desired) -> String {
    let StorageBackend {
        plugin: PluginSource { place, digest, .. },
        ..
    } = &desired.document;
    let parts = (place, digest, settings_digest(&desired.document));
    // It fails for maps whose keys are no words; there is none. Then a hold stays, which is the safe side.
    let bytes = serde_json::to_vec(&parts).unwrap_or_default();
    digest_of(&bytes)
}

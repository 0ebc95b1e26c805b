//! What keeps a backend from following its document, and what ends that.
//!
//! A hold put on by hand ends with `wasmount swap`, on the host where it was put on. An object is wanted by all hosts of a cluster, and nobody should
//! have to go to each: it lifts the holds of those that it meant something else to. A file is of one host, whose administrator has the command.

use super::{History, Identity, settings_digest};
use crate::desired::{Desired, DesiredFrom};
use crate::plugin_file::digest_of;
use crate::record::HeldBy;
use wasmount_core::document::{PluginSource, StorageBackend};

/// A version that must not come again by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    identity: Identity,
    /// None: nobody knows, and any will do.
    secrets: Option<String>,
}

impl Failed {
    /// Whether it is this version.
    pub(crate) fn is(&self, identity: &Identity, secrets: &str) -> bool {
        let same_secrets = self.secrets.as_deref().is_none_or(|mark| mark == secrets);
        self.identity == *identity && same_secrets
    }
}

impl History {
    /// The version that failed.
    pub(crate) fn failed(&self) -> Option<Failed> {
        let HeldBy::Faults { failed } = self.held.as_ref()?.by else {
            return None;
        };
        let entry = self.entry(failed)?;
        Some(Failed {
            identity: entry.identity(),
            secrets: entry.secrets.clone(),
        })
    }

    /// Whether it is held, and this was wanted already when that began.
    pub(crate) fn is_held_since(&self, desired: &Desired) -> bool {
        let revision = self.held.as_ref().and_then(|held| held.revision.as_ref());
        revision.is_some_and(|revision| *revision == wish_digest(desired))
    }

    /// Whether this is followed.
    pub(crate) fn follows(&self, desired: &Desired) -> bool {
        if self.paused {
            return false;
        }
        let Some(held) = &self.held else {
            return true;
        };
        match held.by {
            HeldBy::Faults { .. } => true,
            HeldBy::Rollback | HeldBy::Swap => {
                let is_object = matches!(desired.from, DesiredFrom::Object(_));
                let revision = held.revision.as_ref();
                is_object && revision.is_some_and(|revision| *revision != wish_digest(desired))
            }
        }
    }
}

/// Of which version a document means: how versions follow one another and who signs them are no other wish.
pub(crate) fn wish_digest(desired: &Desired) -> String {
    let StorageBackend {
        plugin: PluginSource { place, digest, .. },
        ..
    } = &desired.document;
    let parts = (place, digest, settings_digest(&desired.document));
    // It fails for maps whose keys are no words; there is none. Then a hold stays, which is the safe side.
    let bytes = serde_json::to_vec(&parts).unwrap_or_default();
    digest_of(&bytes)
}

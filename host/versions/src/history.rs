//! The versions of a backend, which one serves, and to which it can roll back. The decisions here need no disk; this type is also the stored form.
//!
//! It holds documents and no secrets.

mod holds;
mod share;

use crate::desired::Desired;
use crate::plugin_file::digest_of;
use crate::refusal::Refusal;
use crate::services::Kept;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wasmount_core::capabilities::Profile;
use wasmount_core::document::{PluginPlace, PluginSource, StorageBackend};
use wasmount_core::services::{Feature, Service, ServiceSet};
use wasmount_core::status::{Drained, Hold, Share, VersionRecord, VersionState};

/// The version of the stored form. A host that finds another one starts with an empty history, and logs it.
pub(crate) const FORMAT: u32 = 2;
/// Versions that are remembered, most of them without their component. 30: three times what Helm and Deployments keep; each is written again with
/// every swap, and a hundred made a swap a fifth slower.
const REMEMBERED: usize = 30;

/// All that is known of a backend's versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    format: u32,
    next_number: u64,
    current: Option<u64>,
    pub(crate) paused: bool,
    pub(crate) held: Option<Hold>,
    #[serde(default)]
    pub(crate) drained: Option<Drained>,
    /// A version beside the current one.
    #[serde(default)]
    share: Option<Share>,
    /// The oldest first. Shared with the histories before this one: a swap changes two entries.
    entries: Vec<Arc<Entry>>,
    /// The history that replaces this one if the records were changed; the records say whether they were.
    #[serde(default)]
    prepared: Option<Box<History>>,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) record: VersionRecord,
    /// What is needed to serve it again.
    kept: Option<Snapshot>,
    /// The mark of its secrets; none: not known.
    #[serde(default)]
    secrets: Option<String>,
}

/// What a version consists of, besides its component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Snapshot {
    desired: Desired,
    services: Vec<String>,
    features: Vec<String>,
}

/// What distinguishes two versions. Where the component is, who signed it, and the `versions` settings of the document do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CandidateKey {
    pub(crate) digest: String,
    pub(crate) settings_digest: String,
    /// A keyed mark of the secrets (`secrets_mark`), never a digest without a key.
    pub(crate) secrets: String,
}

/// A version that will serve for the first time.
#[derive(Debug, Clone)]
pub(crate) struct NewVersion {
    pub(crate) key: CandidateKey,
    pub(crate) plugin: String,
    pub(crate) plugin_version: String,
    pub(crate) known: Known,
    pub(crate) desired: Desired,
    pub(crate) offer: ServiceSet,
}

/// An artifact that was resolved before, so that the registry need not be queried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) digest: String,
    pub(crate) origin: String,
    pub(crate) signed_by: Vec<String>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            format: FORMAT,
            next_number: 1,
            current: None,
            paused: false,
            held: None,
            drained: None,
            share: None,
            entries: Vec::new(),
            prepared: None,
        }
    }
}

impl Entry {
    /// Whether it is this version, whatever its secrets.
    fn is_version(&self, candidate: &CandidateKey) -> bool {
        self.record.digest == candidate.digest
            && self.record.settings_digest == candidate.settings_digest
    }

    /// Whether it is this version with these secrets.
    pub(crate) fn is(&self, candidate: &CandidateKey) -> bool {
        self.is_version(candidate) && self.secrets.as_ref() == Some(&candidate.secrets)
    }

    pub(crate) fn known(&self) -> Known {
        Known {
            digest: self.record.digest.clone(),
            origin: self.record.origin.clone(),
            signed_by: self.record.signed_by.clone(),
        }
    }

    /// The desired revision that it was made from; none: its component is no longer kept.
    pub(crate) fn desired(&self) -> Option<&Desired> {
        self.kept.as_ref().map(|kept| &kept.desired)
    }
}

impl History {
    /// Whether this host can read the stored form.
    pub(crate) fn is_readable(&self) -> bool {
        self.format == FORMAT
    }

    /// Whether there was never a version.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The same history, with the one that replaces it if the records are changed.
    pub(crate) fn preparing(&self, next: History) -> Self {
        Self {
            prepared: Some(Box::new(next)),
            ..self.clone()
        }
    }

    /// The number of the version that was being activated when the host ended, if there was one.
    pub(crate) fn prepared(&self) -> Option<u64> {
        self.prepared.as_ref()?.current
    }

    /// The history that applies, once it is known whether the records were changed for that version.
    pub(crate) fn settled(self, changed: bool) -> Self {
        match self.prepared {
            Some(next) if changed => *next,
            _ => Self {
                prepared: None,
                ..self
            },
        }
    }

    /// The version that serves, or that served when the host ended.
    pub(crate) fn current(&self) -> Option<&Entry> {
        self.entry(self.current?)
    }

    /// Its number; 0: there is none.
    pub(crate) fn current_number(&self) -> u64 {
        self.current.unwrap_or_default()
    }

    pub(crate) fn entry(&self, number: u64) -> Option<&Entry> {
        let mut entries = self.entries.iter().map(Arc::as_ref);
        entries.find(|entry| entry.record.number == number)
    }

    /// The versions, the newest first.
    pub(crate) fn records(&self) -> Vec<VersionRecord> {
        let records = self.entries.iter().rev();
        records.map(|entry| entry.record.clone()).collect()
    }

    /// What the current version offers.
    pub(crate) fn kept_services(&self, profile: Profile) -> Option<Kept> {
        let current = self.current()?;
        let snapshot = current.kept.as_ref()?;
        let services = snapshot.services.iter();
        let features = snapshot.features.iter();
        let offer = ServiceSet::new(
            services.filter_map(|it| Service::parse(it)),
            features.filter_map(|it| Feature::parse(it)),
        );
        Some(Kept {
            plugin: current.record.plugin.clone(),
            offer,
            hidden: snapshot.desired.document.hidden.clone(),
            profile,
        })
    }

    /// What a tag was resolved to, the last time with the same `plugin` section of the document.
    pub(crate) fn known(&self, plugin: &PluginSource) -> Option<Known> {
        if !matches!(plugin.place, PluginPlace::Registry(_)) {
            return None;
        }
        let same = |entry: &&Arc<Entry>| {
            let desired = entry.desired();
            desired.is_some_and(|desired| desired.document.plugin == *plugin)
        };
        let entry = self.entries.iter().rev().find(same)?;
        Some(entry.known())
    }

    /// The mark of a version's secrets.
    pub(crate) fn secrets_of(&self, number: u64) -> Option<&str> {
        self.entry(number)?.secrets.as_deref()
    }

    /// A new version serves, and any hold or share ends. `proven`: the version before served well so far.
    pub(crate) fn admit(&mut self, version: NewVersion, proven: bool, now: Timestamp) -> u64 {
        let number = self.next_number;
        self.end_share(format!("version {number} came first"), now);
        self.replace_current(number, proven, now);
        self.add(version, now);
        self.current = Some(number);
        self.held = None;
        number
    }

    /// Another version serves instead of the current one.
    fn replace_current(&mut self, by: u64, proven: bool, now: Timestamp) {
        if let Some(before) = self.current_mut() {
            before.record.proven |= proven;
            let reason = format!("version {by} replaced it");
            before.record.end(VersionState::Replaced, reason, now);
        }
    }

    /// Adds a version that begins to serve, under the next number.
    fn add(&mut self, version: NewVersion, now: Timestamp) {
        let (key, known) = (version.key, version.known);
        let services = version.offer.services().map(|it| it.interface().to_owned());
        let features = version.offer.features().map(|it| it.name().to_owned());
        self.entries.push(Arc::new(Entry {
            record: VersionRecord {
                number: self.next_number,
                digest: key.digest,
                plugin: version.plugin,
                plugin_version: version.plugin_version,
                origin: known.origin,
                signed_by: known.signed_by,
                settings_digest: key.settings_digest,
                since: now,
                until: None,
                reason: None,
                state: VersionState::Serving,
                proven: false,
                is_kept: true,
            },
            kept: Some(Snapshot {
                desired: version.desired,
                services: services.collect(),
                features: features.collect(),
            }),
            secrets: Some(key.secrets),
        }));
        self.next_number += 1;
    }

    /// An earlier version serves again, with the current secrets.
    pub(crate) fn roll_back_to(&mut self, hold: Hold, secrets: String, now: Timestamp) {
        let Hold { number, reason, .. } = hold.clone();
        self.end_share(format!("version {number} was rolled back to first"), now);
        if let Some(left) = self.current_mut() {
            left.record.end(VersionState::RolledBack, reason, now);
        }
        self.current = Some(number);
        if let Some(entry) = self.current_mut() {
            entry.secrets = Some(secrets);
            let back = &mut entry.record;
            back.since = now;
            back.until = None;
            back.reason = None;
            back.state = VersionState::Serving;
        }
        self.held = Some(hold);
    }

    /// Marks the current version as proven. Returns whether that is new.
    pub(crate) fn mark_proven(&mut self) -> bool {
        let current = self.current_mut();
        current.is_some_and(|entry| !std::mem::replace(&mut entry.record.proven, true))
    }

    /// The same version is desired by another document: updates its document, origin and signers.
    pub(crate) fn reword(&mut self, desired: Desired, known: Known) {
        if let Some(entry) = self.current_mut() {
            entry.record.origin = known.origin;
            entry.record.signed_by = known.signed_by;
            if let Some(kept) = &mut entry.kept {
                kept.desired = desired;
            }
        }
    }

    /// The version to roll back to: this one, or the last before the current one that was not rolled back; after faults, one that is proven.
    pub(crate) fn target(
        &self,
        requested: Option<u64>,
        must_be_proven: bool,
    ) -> Result<u64, Refusal> {
        if let Some(number) = requested {
            return match self.entry(number) {
                _ if self.current == requested || self.is_shared(number) => {
                    Err(Refusal::Serves { number })
                }
                Some(entry) if entry.kept.is_some() => Ok(number),
                _ => Err(Refusal::NotKept {
                    number,
                    kept: self.kept_numbers(),
                }),
            };
        }
        let current = self.current.unwrap_or(self.next_number);
        let fits = |entry: &&Arc<Entry>| {
            let record = &entry.record;
            let rolled_back = matches!(record.state, VersionState::RolledBack);
            record.number < current
                && entry.kept.is_some()
                && !rolled_back
                && (record.proven || !must_be_proven)
        };
        let last = self.entries.iter().rev().find(fits);
        last.map(|entry| entry.record.number)
            .ok_or(Refusal::NothingToGoBackTo)
    }

    fn current_mut(&mut self) -> Option<&mut Entry> {
        self.entry_mut(self.current?)
    }

    fn entry_mut(&mut self, number: u64) -> Option<&mut Entry> {
        let mut entries = self.entries.iter_mut();
        let entry = entries.find(|entry| entry.record.number == number);
        entry.map(Arc::make_mut)
    }
}

/// `sha256:..` of what a document contains besides the component.
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
    // It fails only for maps whose keys are not strings; there is none.
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
    // It fails only for maps whose keys are not strings; there is none.
    let bytes = serde_json::to_vec(&parts).unwrap_or_default();
    digest_of(&bytes)
}

#[cfg(test)]
pub(crate) mod tests;

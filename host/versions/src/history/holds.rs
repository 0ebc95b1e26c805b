//! Which hold keeps a backend from following its document, and what ends it; and which versions stay on disk.
//!
//! A hold by hand ends with `wasmount swap` on its host. An object applies to all hosts of a cluster, and no administrator should have to visit each:
//! a changed object ends the holds that began when it meant another version. A file belongs to one host, whose administrator uses the command.

use super::{CandidateKey, History, REMEMBERED, desired_digest};
use crate::desired::{Desired, DesiredFrom};
use std::collections::BTreeSet;
use std::sync::Arc;
use wasmount_core::status::{HeldBy, VersionState};

impl History {
    /// Whether it is the version that failed, which must not serve again without a command. If its secrets are not known, any match.
    pub(crate) fn has_failed(&self, candidate: &CandidateKey) -> bool {
        let Some(HeldBy::Faults { failed }) = self.held.as_ref().map(|hold| &hold.by) else {
            return false;
        };
        let failed = self.entry(*failed);
        failed.is_some_and(|entry| {
            let same = |secrets: &String| *secrets == candidate.secrets;
            entry.is_version(candidate) && entry.secrets.as_ref().is_none_or(same)
        })
    }

    /// Whether there is a hold, and this was already desired when it began.
    pub(crate) fn is_held_since(&self, desired: &Desired) -> bool {
        let revision = self.held.as_ref().and_then(|hold| hold.revision.as_ref());
        revision.is_some_and(|revision| *revision == desired_digest(desired))
    }

    /// Whether this desired revision is followed.
    pub(crate) fn follows(&self, desired: &Desired) -> bool {
        if self.paused {
            return false;
        }
        let revision = match (&self.share, &self.held) {
            (Some(share), _) => Some(&share.revision),
            (None, None) => return true,
            (None, Some(hold)) if matches!(hold.by, HeldBy::Faults { .. }) => return true,
            (None, Some(hold)) => hold.revision.as_ref(),
        };
        let is_object = matches!(desired.from, DesiredFrom::Object(_));
        is_object && revision.is_some_and(|revision| *revision != desired_digest(desired))
    }

    /// Keeps this many versions on disk, besides one with a share of the volumes: the one that serves, then those that were not rolled back, the newest
    /// first. The last proven one is among them, if at least two are kept.
    pub(crate) fn prune(&mut self, keep: usize) {
        let last_proven = self.target(None, true).ok();
        let mut order: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.kept.is_some())
            .map(|entry| {
                let number = entry.record.number;
                let rolled_back = matches!(entry.record.state, VersionState::RolledBack);
                (
                    !self.is_shared(number),
                    self.current != Some(number),
                    last_proven != Some(number),
                    rolled_back,
                    std::cmp::Reverse(number),
                )
            })
            .collect();
        order.sort_unstable();
        let stay: BTreeSet<u64> = order
            .iter()
            .take(keep.max(1) + usize::from(self.share.is_some()))
            .map(|(.., number)| number.0)
            .collect();
        for entry in &mut self.entries {
            let stays = stay.contains(&entry.record.number);
            if entry.record.is_kept != stays || entry.kept.is_some() != stays {
                let entry = Arc::make_mut(entry);
                entry.record.is_kept = stays;
                entry.kept = entry.kept.take().filter(|_| stays);
            }
        }
        let surplus = self.entries.len().saturating_sub(REMEMBERED);
        let mut index = 0;
        self.entries.retain(|entry| {
            index += 1;
            index > surplus || entry.kept.is_some()
        });
    }

    /// Components that must stay on disk.
    pub(crate) fn digests(&self) -> BTreeSet<String> {
        let kept = self.entries.iter().filter(|entry| entry.kept.is_some());
        kept.map(|entry| entry.record.digest.clone()).collect()
    }

    /// The first version that can be rolled back to, or that serves.
    pub(crate) fn oldest_kept(&self) -> Option<u64> {
        let mut entries = self.entries.iter();
        let oldest = entries.find(|entry| entry.kept.is_some())?;
        Some(oldest.record.number)
    }

    pub(super) fn kept_numbers(&self) -> Vec<u64> {
        let kept = self.entries.iter().filter(|entry| entry.kept.is_some());
        let numbers = kept.map(|entry| entry.record.number);
        numbers
            .filter(|number| self.current != Some(*number))
            .collect()
    }
}

//! Which versions stay on disk.

use super::{History, REMEMBERED};
use crate::record::VersionState;
use std::collections::BTreeSet;
use std::sync::Arc;

impl History {
    /// Keeps so many versions on disk: the one that serves, then those that were not taken back, the newest first. The last proven one is
    /// among them, if two are kept at all.
    pub(crate) fn prune(&mut self, keep: usize) {
        let last_proven = self.target(None, true).ok();
        let mut order: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.kept.is_some())
            .map(|entry| {
                let number = entry.record.number;
                let taken_back = matches!(entry.record.state, VersionState::RolledBack { .. });
                (
                    self.current != Some(number),
                    last_proven != Some(number),
                    taken_back,
                    std::cmp::Reverse(number),
                )
            })
            .collect();
        order.sort_unstable();
        let stay: BTreeSet<u64> = order
            .iter()
            .take(keep.max(1))
            .map(|(_, _, _, number)| number.0)
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

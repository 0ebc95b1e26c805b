//! A fingerprint of all records of a backend. It shows whether anything was written since, as no store reports removals.

use sha2::{Digest, Sha256};
use std::iter::Peekable;
use wasmount_core::migration::StateChanges;
use wasmount_core::state::{Keyspace, STATE_SCAN_ENTRIES, StateError, StateStore, record_bytes};

/// Fingerprint and size of the records.
pub(super) struct Content {
    /// Of all keys and values.
    pub(super) fingerprint: String,
    /// Their size, as `limits.stateBytes` counts.
    pub(super) bytes: u64,
}

/// The records of a keyspace as they will be after these changes.
pub(super) async fn content(
    state: &dyn StateStore,
    space: &Keyspace,
    changes: &StateChanges,
) -> Result<Content, StateError> {
    let mut sum = Sum::default();
    let mut changes = changes.iter().peekable();
    let mut after: Option<String> = None;
    loop {
        let page = state
            .scan(space, "", after.as_deref(), STATE_SCAN_ENTRIES)
            .await?;
        let Some(last) = page.last() else {
            sum.take_changes(&mut changes, None);
            return Ok(sum.done());
        };
        after = Some(last.key.clone());
        for entry in &page {
            if !sum.take_changes(&mut changes, Some(&entry.key)) {
                sum.add(&entry.key, &entry.value);
            }
        }
    }
}

#[derive(Default)]
struct Sum {
    hash: Sha256,
    bytes: u64,
}

impl Sum {
    /// Adds the changes up to this key. Returns whether the key is among them.
    fn take_changes<'a>(
        &mut self,
        changes: &mut Peekable<impl Iterator<Item = (&'a String, &'a Option<Vec<u8>>)>>,
        up_to: Option<&str>,
    ) -> bool {
        let mut is_changed = false;
        while let Some((key, value)) =
            changes.next_if(|(key, _)| up_to.is_none_or(|up_to| key.as_str() <= up_to))
        {
            is_changed |= up_to == Some(key.as_str());
            if let Some(value) = value {
                self.add(key, value);
            }
        }
        is_changed
    }

    fn add(&mut self, key: &str, value: &[u8]) {
        // With lengths, so that different contents never give the same bytes.
        for part in [key.as_bytes(), value] {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
        self.bytes = self.bytes.saturating_add(record_bytes(key, value.len()));
    }

    fn done(self) -> Content {
        Content {
            fingerprint: hex::encode(self.hash.finalize()),
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn sum(records: &BTreeMap<String, Vec<u8>>, changes: &StateChanges) -> (String, u64) {
        let mut sum = Sum::default();
        let mut changes = changes.iter().peekable();
        for (key, value) in records {
            if !sum.take_changes(&mut changes, Some(key)) {
                sum.add(key, value);
            }
        }
        sum.take_changes(&mut changes, None);
        let Content { fingerprint, bytes } = sum.done();
        (fingerprint, bytes)
    }

    fn applied(
        mut records: BTreeMap<String, Vec<u8>>,
        changes: &StateChanges,
    ) -> BTreeMap<String, Vec<u8>> {
        for (key, value) in changes {
            match value {
                Some(value) => drop(records.insert(key.clone(), value.clone())),
                None => drop(records.remove(key)),
            }
        }
        records
    }

    proptest! {
        /// The predicted fingerprint is the one that is found afterwards, and other contents have another one.
        #[test]
        fn changes_are_foretold(
            records in proptest::collection::btree_map("[a-d]{0,2}", "[x-z]{0,2}".prop_map(String::into_bytes), 0..12),
            changes in proptest::collection::btree_map("[a-d]{0,2}", proptest::option::of("[x-z]{0,2}".prop_map(String::into_bytes)), 0..12),
        ) {
            let after = applied(records.clone(), &changes);
            prop_assert_eq!(sum(&records, &changes), sum(&after, &StateChanges::new()));
            let same = after == records;
            let (one, other) = (sum(&records, &StateChanges::new()).0, sum(&after, &StateChanges::new()).0);
            prop_assert_eq!(one == other, same);
        }
    }
}

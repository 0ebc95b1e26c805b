//! The plugin's records, read from the store and written to it as a whole: the content of a file of records, and the changes of one call.

use std::collections::{BTreeMap, BTreeSet};
use wasmount_core::names::DriverName;
use wasmount_core::state::{Expect, Keyspace, KeyspaceOwner, StateError, StateStore};

/// Keys with their values.
pub(crate) type Records = BTreeMap<String, Vec<u8>>;

/// One key that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The key.
    pub(crate) key: String,
    /// Absent: there was no record.
    pub(crate) before: Option<Vec<u8>>,
    /// Absent: there is no record now.
    pub(crate) after: Option<Vec<u8>>,
}

/// The differences, in the order of keys.
pub(crate) fn changes(before: &Records, after: &Records) -> Vec<Change> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| Change {
            key: key.clone(),
            before: before.get(key).cloned(),
            after: after.get(key).cloned(),
        })
        .collect()
}

pub(super) fn space(driver: &DriverName) -> Keyspace {
    Keyspace {
        driver: driver.clone(),
        owner: KeyspaceOwner::Backend,
    }
}

pub(super) async fn fill(
    store: &dyn StateStore,
    space: &Keyspace,
    records: &Records,
) -> Result<(), StateError> {
    for (key, value) in records {
        store.put(space, key, value.clone(), Expect::Any).await?;
    }
    store.sync().await
}

pub(super) async fn all(store: &dyn StateStore, space: &Keyspace) -> Result<Records, StateError> {
    let entries = store.scan_all(space, "", None).await?.into_iter();
    Ok(entries.map(|entry| (entry.key, entry.value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_records_are_shown() {
        let records = |pairs: &[(&str, &str)]| {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
            owned.collect::<Records>()
        };
        let before = records(&[("gone", "1"), ("other", "1"), ("same", "1")]);
        let after = records(&[("new", "2"), ("other", "2"), ("same", "1")]);
        let changed: Vec<_> = changes(&before, &after)
            .into_iter()
            .map(|change| (change.key, change.before, change.after))
            .collect();
        let value = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(
            changed,
            [
                ("gone".to_owned(), value("1"), None),
                ("new".to_owned(), None, value("2")),
                ("other".to_owned(), value("1"), value("2")),
            ]
        );
        assert_eq!(changes(&after, &after), []);
    }
}

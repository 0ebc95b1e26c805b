//! Checks the record changes that a guest returns for a migration.

use super::{Checker, Invalid};
use crate::bindings::exported::state_migration as guest;
use wasmount_core::migration::StateChanges;
use wasmount_core::state::{check_key, check_value};

impl Checker {
    pub(crate) fn state_changes(
        &self,
        answered: Vec<guest::RecordChange>,
    ) -> Result<StateChanges, Invalid> {
        let mut changes = StateChanges::new();
        for change in answered {
            let (key, value) = match change {
                guest::RecordChange::Put(guest::StoredRecord { key, value }) => (key, Some(value)),
                guest::RecordChange::Remove(key) => (key, None),
            };
            self.state_key(&key)?;
            if let Some(value) = &value {
                self.state_value(value)?;
            }
            if changes.insert(key, value).is_some() {
                return Err(Invalid::of_plugin("a key is changed twice"));
            }
        }
        Ok(changes)
    }

    fn state_value(&self, value: &[u8]) -> Result<(), Invalid> {
        check_value(value).map_err(|error| Invalid::of_plugin(error.to_string()))?;
        if self.redactor.finds_secret_in(value) {
            return Err(Invalid::of_plugin(
                "a record contains the value of a secret, and the store is not encrypted",
            ));
        }
        Ok(())
    }

    fn state_key(&self, key: &str) -> Result<(), Invalid> {
        if key.is_empty() || key.contains('\0') {
            return Err(Invalid::of_plugin("a key is empty or contains a NUL byte"));
        }
        check_key(key).map_err(|error| Invalid::of_plugin(error.to_string()))?;
        self.without_secret("a key", key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Redactor;
    use std::sync::Arc;
    use wasmount_core::secrets::Secrets;

    fn put(key: &str, value: &[u8]) -> guest::RecordChange {
        guest::RecordChange::Put(guest::StoredRecord {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }

    fn checked(changes: Vec<guest::RecordChange>) -> Result<StateChanges, String> {
        let secrets = Secrets::from_iter([("password".to_owned(), "tr0ub4dor".to_owned())]);
        let checker = Checker::new(Redactor::new(Arc::new(secrets), Arc::default()), false);
        checker
            .state_changes(changes)
            .map_err(|invalid| invalid.reason)
    }

    #[test]
    fn changes_within_the_rules_of_the_store_are_taken() {
        let removed = guest::RecordChange::Remove("b".to_owned());
        let changes = checked(vec![put("a", &[0; 1 << 20]), removed]).unwrap();
        let written = ("a".to_owned(), Some(vec![0; 1 << 20]));
        let expected = StateChanges::from([written, ("b".to_owned(), None)]);
        assert_eq!(changes, expected);
        assert_eq!(checked(Vec::new()), Ok(StateChanges::new()));
    }

    #[test]
    fn changes_that_the_store_would_refuse_are_refused() {
        let removed = |key: &str| guest::RecordChange::Remove(key.to_owned());
        for (changes, reason) in [
            (vec![put("", b"")], "a key is empty or contains a NUL byte"),
            (
                vec![removed("a\0")],
                "a key is empty or contains a NUL byte",
            ),
            (
                vec![removed(&"k".repeat(1025))],
                "key is 1025 bytes long, at most 1024 are allowed",
            ),
            (
                vec![put("a", &[0; (1 << 20) + 1])],
                "value is 1048577 bytes long, at most 1048576 are allowed",
            ),
            (vec![put("a", b"1"), removed("a")], "a key is changed twice"),
            (
                vec![put("a", b"x tr0ub4dor x")],
                "a record contains the value of a secret, and the store is not encrypted",
            ),
            (
                vec![removed("tr0ub4dor")],
                "a key contains the value of a secret; clients store it in plain text",
            ),
        ] {
            assert_eq!(checked(changes), Err(reason.to_owned()));
        }
    }
}

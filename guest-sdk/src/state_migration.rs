//! Migration of the records of an older version.
//!
//! A version that only reads more than the one before needs no migration: read both formats, write the new one. A migration is for records that must
//! change before the first call: keys in another order, an index, a format that the code no longer reads.

use crate::error::Error;
use crate::state::{self, Value};

pub use crate::bindings::state_migration::interface::{Migration, RecordChange, StoredRecord};

/// The interface `state-migration`: the host calls the new version, with the version number of the one before.
///
/// ```
/// use wasmount_guest::*;
///
/// struct Disks;
/// export! { identity: Disks, state_migration: Disks }
///
/// impl Identity for Disks {
///     fn get_plugin_info() -> PluginInfo {
///         PluginInfo::new("disks.example.com", "2.1.0")
///     }
/// }
///
/// /// Version 1 kept the size alone, version 2 writes `size owner`.
/// impl StateMigration for Disks {
///     fn plan_migration(from_version: &str) -> Result<Migration, Error> {
///         match from_version.split('.').next() {
///             Some("2") => Ok(Migration::Unneeded),
///             Some("1") => Ok(Migration::Rewriting),
///             _ => Err(Error::failed_precondition("install version 1 or 2 first")),
///         }
///     }
///
///     fn migrate_records(_: &str, page: Vec<StoredRecord>) -> Result<Vec<RecordChange>, Error> {
///         page.iter()
///             .map(|record| {
///                 let size: u64 = record.read()?;
///                 Ok(record.rewritten(&format!("{size} nobody")))
///             })
///             .collect()
///     }
/// }
///
/// let page = vec![StoredRecord::new("disk-1", &1024_u64)];
/// let changes = Disks::migrate_records("1.9.0", page)?;
/// assert_eq!(changes, [RecordChange::put("disk-1", &"1024 nobody".to_owned())]);
/// # Ok::<_, Error>(())
/// ```
pub trait StateMigration: 'static {
    /// What must be done about the records of that version, or why this version cannot use them. Called at admission already.
    fn plan_migration(from_version: &str) -> Result<Migration, Error>;

    /// The changes to a page of that version's records. Records without a change stay. Pure: [`crate::state`] and all functions that change a
    /// [`crate::Pool`] fail here; the host may start again from the first page.
    fn migrate_records(
        from_version: &str,
        page: Vec<StoredRecord>,
    ) -> Result<Vec<RecordChange>, Error>;
}

impl<T: StateMigration> crate::bindings::state_migration::interface::Guest for T {
    fn plan_migration(from_version: String) -> Result<Migration, Error> {
        <T as StateMigration>::plan_migration(&from_version)
    }

    fn migrate_records(
        from_version: String,
        page: Vec<StoredRecord>,
    ) -> Result<Vec<RecordChange>, Error> {
        <T as StateMigration>::migrate_records(&from_version, page)
    }
}

impl StoredRecord {
    /// A record of this key.
    pub fn new<T: Value>(key: impl Into<String>, value: &T) -> Self {
        Self {
            key: key.into(),
            value: value.to_bytes(),
        }
    }

    /// Its value; `data-loss` when it cannot be read as a `T`.
    pub fn read<T: Value>(&self) -> Result<T, Error> {
        state::read(&self.key, &self.value)
    }

    /// Writes another value under its key.
    pub fn rewritten<T: Value>(&self, value: &T) -> RecordChange {
        RecordChange::put(self.key.clone(), value)
    }
}

impl RecordChange {
    /// Writes a record.
    pub fn put<T: Value>(key: impl Into<String>, value: &T) -> Self {
        Self::Put(StoredRecord::new(key, value))
    }

    /// Removes a record.
    pub fn remove(key: impl Into<String>) -> Self {
        Self::Remove(key.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_record_is_read_as_what_was_written() {
        let record = StoredRecord::new("a", &7_u64);
        assert_eq!(record.read::<u64>(), Ok(7));
        assert_eq!(record.rewritten(&8_u64), RecordChange::put("a", &8_u64));
    }

    #[test]
    fn a_record_that_cannot_be_read_is_said_to_be_lost() {
        let record = StoredRecord::new("a", &"seven".to_owned());
        let error = record.read::<u64>().unwrap_err();
        assert_eq!(error.code, Code::DataLoss);
        assert!(error.message.contains("`a`"), "{}", error.message);
    }
}

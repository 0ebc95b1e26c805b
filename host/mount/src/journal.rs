//! The journal: what was meant and what was done for each volume, one file a volume, written aside and renamed.
//!
//! Idempotence and recovery rest on it; teardown must work without it. It lies in the run directory, which ends with the mounts that it
//! describes, so nothing is synced. Whether a record still holds is for its readers to see.

pub(crate) mod entry;

use crate::observe::Identity;
use crate::records::{Lasting, Record, Records};
use entry::{Entry, SCHEMA};
use std::collections::BTreeMap;
use wasmount_core::mounter::VolumeKey;
use wasmount_core::names::DriverName;

/// The directory in the run directory.
const DIRECTORY: &str = "journal";

pub(crate) type Journal = Records<Entry>;

impl Record for Entry {
    const SCHEMA: u32 = SCHEMA;
    const DIRECTORY: &'static str = DIRECTORY;
    const LASTING: Lasting = Lasting::Process;

    fn empty(key: VolumeKey) -> Self {
        Self {
            schema: SCHEMA,
            key,
            stage: None,
            targets: BTreeMap::new(),
        }
    }

    fn schema(&self) -> u32 {
        self.schema
    }

    fn key(&self) -> &VolumeKey {
        &self.key
    }

    fn is_empty(&self) -> bool {
        self.stage.is_none() && self.targets.is_empty()
    }
}

impl Journal {
    /// All volumes of a driver.
    pub(crate) fn of_driver(&self, driver: &DriverName) -> Vec<Entry> {
        self.entries(|entry| entry.key.driver == *driver)
    }

    /// Whose mounts are recorded at a path, and what their roots are. More than one only where a record is outdated.
    pub(crate) fn holders_of(&self, path: &str) -> Vec<(VolumeKey, Identity)> {
        let root_at = |entry: &Entry| {
            let mut mounts = entry.mounts();
            mounts.find(|(at, _)| *at == path).map(|(_, root)| root)
        };
        let holders = self.entries(|entry| root_at(entry).is_some());
        let holders = holders.into_iter();
        holders
            .filter_map(|entry| Some((entry.key.clone(), root_at(&entry)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests;

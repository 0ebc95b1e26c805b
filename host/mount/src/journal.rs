//! The journal: what was meant and what was done for each volume, one file a volume, written aside and renamed.
//!
//! It is apart because idempotence and recovery rest on it, and tear-down must not. It lies in the run directory, which dies with the mounts
//! that it describes, so nothing is synced. A file that is torn or of another version is put aside and reported, and never stops the host.
//! It must not know the kernel: whether a record still holds is for its readers to see.

pub(crate) mod entry;

use crate::block::{BlockRecord, DeviceNumber};
use crate::failure::{MountSetupError, kernel};
use crate::observe::Identity;
use crate::record_file::{Fault, Lasting, Record, RecordFiles};
use entry::{Entry, SCHEMA};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;

/// The directory in the run directory.
const DIRECTORY: &str = "journal";

/// All volumes. Read once; then memory and files say the same.
#[derive(Debug)]
pub(crate) struct Journal {
    files: RecordFiles,
    /// Held while a file is written: some microseconds in memory, and no storage of a volume is touched.
    volumes: Mutex<Volumes>,
}

/// What the files say.
#[derive(Debug, Default)]
struct Volumes {
    entries: BTreeMap<VolumeKey, Entry>,
    /// Whose mounts are recorded at a path. More than one only where a record is outdated.
    holders: BTreeMap<String, BTreeSet<VolumeKey>>,
}

impl Record for Entry {
    const SCHEMA: u32 = SCHEMA;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn key(&self) -> &VolumeKey {
        &self.key
    }

    fn is_empty(&self) -> bool {
        Entry::is_empty(self)
    }
}

impl Volumes {
    /// Puts an entry in the place of the volume's last one; one without a word is forgotten.
    fn replace(&mut self, entry: Entry) {
        if let Some(before) = self.entries.remove(&entry.key) {
            for (path, _, _) in before.mounts() {
                if let Some(keys) = self.holders.get_mut(path) {
                    keys.remove(&entry.key);
                    if keys.is_empty() {
                        self.holders.remove(path);
                    }
                }
            }
        }
        if entry.is_empty() {
            return;
        }
        for (path, _, _) in entry.mounts() {
            let keys = self.holders.entry(path.to_owned()).or_default();
            keys.insert(entry.key.clone());
        }
        self.entries.insert(entry.key.clone(), entry);
    }
}

impl Journal {
    /// Reads what an earlier host left.
    pub(crate) fn open(run_directory: &Path) -> Result<Self, MountSetupError> {
        let directory = run_directory.join(DIRECTORY);
        let (files, entries) = RecordFiles::open::<Entry>(directory, Lasting::Process).map_err(
            |fault| match fault {
                Fault::InUse { path } => MountSetupError::JournalInUse { path },
                Fault::Io {
                    operation,
                    path,
                    source,
                } => MountSetupError::Journal {
                    operation,
                    path,
                    source,
                },
            },
        )?;
        let mut volumes = Volumes::default();
        entries.into_iter().for_each(|entry| volumes.replace(entry));
        Ok(Self {
            files,
            volumes: Mutex::new(volumes),
        })
    }

    /// What is known of a volume.
    pub(crate) fn entry(&self, key: &VolumeKey) -> Entry {
        self.lock()
            .entries
            .get(key)
            .cloned()
            .unwrap_or_else(|| Entry::empty(key.clone()))
    }

    /// All volumes of a driver.
    pub(crate) fn of_driver(&self, driver: &DriverName) -> Vec<Entry> {
        self.lock()
            .entries
            .values()
            .filter(|entry| entry.key.driver == *driver)
            .cloned()
            .collect()
    }

    /// Whether a record of a driver speaks of a device.
    pub(crate) fn has_device(&self, driver: &DriverName, device: &BlockRecord) -> bool {
        let volumes = self.lock();
        let entries = volumes.entries.values();
        let own = entries.filter(|entry| entry.key.driver == *driver);
        own.flat_map(Entry::blocks).any(|block| block == *device)
    }

    /// What is known of all volumes that lie on a device.
    pub(crate) fn entries_on(&self, number: DeviceNumber) -> Vec<Entry> {
        let volumes = self.lock();
        let lies_on = |entry: &&Entry| entry.blocks().any(|block| block.number == number);
        volumes.entries.values().filter(lies_on).cloned().collect()
    }

    /// Whose mounts are recorded at a path, and what their roots are.
    pub(crate) fn holders_of(&self, path: &str) -> Vec<(VolumeKey, Identity)> {
        let volumes = self.lock();
        let keys = volumes.holders.get(path).into_iter().flatten();
        keys.filter_map(|key| volumes.entries.get(key))
            .filter_map(|entry| {
                entry
                    .mounts()
                    .find(|(mounted, _, _)| *mounted == path)
                    .map(|(_, _, identity)| (entry.key.clone(), identity))
            })
            .collect()
    }

    /// Changes what is known of a volume: first on disk, then in memory. An error of `change` changes nothing.
    pub(crate) fn update<T>(
        &self,
        key: &VolumeKey,
        change: impl FnOnce(&mut Entry) -> Result<T, MountError>,
    ) -> Result<T, MountError> {
        let mut volumes = self.lock();
        let before = volumes.entries.get(key);
        let mut entry = before.cloned().unwrap_or_else(|| Entry::empty(key.clone()));
        let answer = change(&mut entry)?;
        if before != Some(&entry) {
            self.files.store(&entry).map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                kernel("write", "the mount journal", errno)
            })?;
        }
        volumes.replace(entry);
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, Volumes> {
        // What a panicking thread leaves is whole: memory changes after the file, and nothing in that can panic.
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

//! What the host must still know of a volume after a reboot: the notes of its plan, which a hook needs at tear-down, and that it was about to
//! be formatted.
//!
//! It is apart from the journal because that one dies with the mounts. Every change is on stable storage before the call returns. It must not
//! know what a note says, nor when a device may be formatted.

use crate::failure::{MountSetupError, kernel};
use crate::observe::Identity;
use crate::record_file::{Fault, Lasting, Record, RecordFiles};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use uuid::Uuid;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::plan::Source;

/// The directory in the state directory.
const DIRECTORY: &str = "volumes";

/// All volumes. Read once; then memory and files say the same.
#[derive(Debug)]
pub(crate) struct Durable {
    files: RecordFiles,
    /// Never held while a file is written: who only reads must not wait for the node's disk.
    volumes: Mutex<BTreeMap<VolumeKey, DurableRecord>>,
    /// Held by who changes something, from the look at what is known until memory and file say the same again.
    changing: Mutex<()>,
}

/// Says that a device was blank and is being formatted: until the first mount, what is on it is nobody's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FormatIntent {
    /// Where the device came from.
    pub(crate) source: Source,
    /// The file behind it, for a loop device.
    pub(crate) backing: Option<Identity>,
    pub(crate) size_bytes: u64,
    /// What it was to become.
    pub(crate) fs_type: String,
    /// What the file system was to be called, so that one made by another hand is told from ours.
    pub(crate) uuid: Uuid,
}

impl FormatIntent {
    /// Whether both speak of one device. The file system that holds the file behind it may have another device number after a reboot (loop
    /// devices, LVM and NVMe are numbered anew), so only the file's inode counts.
    pub(crate) fn is_of(&self, now: &Self) -> bool {
        let Self {
            source,
            backing,
            size_bytes,
            fs_type,
            uuid: _,
        } = self;
        let inode = |backing: &Option<Identity>| backing.map(|it| it.inode);
        (source, size_bytes, fs_type) == (&now.source, &now.size_bytes, &now.fs_type)
            && inode(backing) == inode(&now.backing)
    }
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DurableRecord {
    schema: u32,
    key: VolumeKey,
    notes: BTreeMap<String, String>,
    format_intent: Option<FormatIntent>,
}

impl Record for DurableRecord {
    const SCHEMA: u32 = 1;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn key(&self) -> &VolumeKey {
        &self.key
    }

    fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.format_intent.is_none()
    }
}

impl Durable {
    /// Reads what an earlier host left.
    pub(crate) fn open(state_directory: &Path) -> Result<Self, MountSetupError> {
        let directory = state_directory.join(DIRECTORY);
        let (files, records) = RecordFiles::open::<DurableRecord>(directory, Lasting::PowerCut)
            .map_err(|fault| match fault {
                Fault::InUse { path } => MountSetupError::StateInUse { path },
                Fault::Io {
                    operation,
                    path,
                    source,
                } => MountSetupError::State {
                    operation,
                    path,
                    source,
                },
            })?;
        let volumes = records
            .into_iter()
            .map(|record| (record.key.clone(), record))
            .collect();
        Ok(Self {
            files,
            volumes: Mutex::new(volumes),
            changing: Mutex::new(()),
        })
    }

    /// The notes of a volume; empty: none.
    pub(crate) fn notes(&self, key: &VolumeKey) -> BTreeMap<String, String> {
        lock(&self.volumes)
            .get(key)
            .map(|record| record.notes.clone())
            .unwrap_or_default()
    }

    /// Remembers the notes of a volume; empty: none.
    pub(crate) fn set_notes(
        &self,
        key: &VolumeKey,
        notes: &BTreeMap<String, String>,
    ) -> Result<(), MountError> {
        self.update(key, |record| record.notes.clone_from(notes))
    }

    /// Whether, and as what, a volume's device was about to be formatted.
    pub(crate) fn intent(&self, key: &VolumeKey) -> Option<FormatIntent> {
        lock(&self.volumes).get(key)?.format_intent.clone()
    }

    /// To be called before the first byte is written.
    pub(crate) fn set_intent(
        &self,
        key: &VolumeKey,
        intent: FormatIntent,
    ) -> Result<(), MountError> {
        self.update(key, |record| record.format_intent = Some(intent))
    }

    /// To be called when the file system could be mounted, and before anybody can write to it.
    pub(crate) fn clear_intent(&self, key: &VolumeKey) -> Result<(), MountError> {
        self.update(key, |record| record.format_intent = None)
    }

    /// Changes what is known of a volume, first on disk, then in memory. Without a change nothing is written.
    fn update(
        &self,
        key: &VolumeKey,
        change: impl FnOnce(&mut DurableRecord),
    ) -> Result<(), MountError> {
        let _changing = lock(&self.changing);
        let known = lock(&self.volumes).get(key).cloned();
        let before = known.unwrap_or_else(|| DurableRecord {
            schema: DurableRecord::SCHEMA,
            key: key.clone(),
            notes: BTreeMap::new(),
            format_intent: None,
        });
        let mut record = before.clone();
        change(&mut record);
        if record == before {
            return Ok(());
        }
        self.files.store(&record).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            kernel("write", "the durable records of volumes", errno)
        })?;
        let mut volumes = lock(&self.volumes);
        if record.is_empty() {
            volumes.remove(key);
        } else {
            volumes.insert(key.clone(), record);
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread leaves is whole: memory changes after the file, in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

//! State of a volume that the host needs after a reboot: the notes of its plan, which a hook needs at teardown, and the intent to format its device.
//!
//! The journal ends with the mounts; this state outlives them. Every change is on stable storage before the call returns.

use crate::observe::Identity;
use crate::records::{Record, Records};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use uuid::Uuid;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::plan::Source;

/// After so long without a stage, an intent is forgotten. A week: a pod that is to have the volume on this node was created long before, and what is
/// left of a volume that was deleted meanwhile does not add up.
const INTENT_KEPT: Duration = Duration::from_hours(7 * 24);

pub(crate) type Durable = Records<DurableRecord>;

/// Records that a device was blank and is being formatted. Until the first mount, the device contains no user data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FormatIntent {
    /// The source of the plan that named the device.
    pub(crate) source: Source,
    /// The file behind it, for a loop device.
    pub(crate) backing: Option<Identity>,
    pub(crate) size_bytes: u64,
    /// The file system type to be made.
    pub(crate) fs_type: String,
    /// The UUID of the file system to be made. It distinguishes the host's file system from one that another program made.
    pub(crate) uuid: Uuid,
}

impl FormatIntent {
    /// Whether both records describe the same device. The file system that holds the backing file may have another device number after a reboot (loop
    /// devices, LVM and NVMe are renumbered), so only the inode of the file is compared.
    pub(crate) fn is_of(&self, now: &Self) -> bool {
        let inode = |intent: &Self| intent.backing.map(|backing| backing.inode);
        self.source == now.source
            && self.size_bytes == now.size_bytes
            && self.fs_type == now.fs_type
            && inode(self) == inode(now)
    }
}

/// The record of one volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DurableRecord {
    schema: u32,
    key: VolumeKey,
    notes: BTreeMap<String, String>,
    format_intent: Option<FormatIntent>,
}

impl Record for DurableRecord {
    const SCHEMA: u32 = 1;
    const DIRECTORY: &'static str = "volumes";
    const KIND: (&'static str, &'static str) = ("state", "state");
    const NAME: &'static str = "the durable records of volumes";
    const IS_SYNCED: bool = true;

    fn empty(key: VolumeKey) -> Self {
        Self {
            schema: Self::SCHEMA,
            key,
            notes: BTreeMap::new(),
            format_intent: None,
        }
    }

    fn schema(&self) -> u32 {
        self.schema
    }

    fn key(&self) -> &VolumeKey {
        &self.key
    }
}

impl Durable {
    /// The notes of a volume. Empty: it has none.
    pub(crate) fn notes(&self, key: &VolumeKey) -> BTreeMap<String, String> {
        self.entry(key).notes
    }

    /// Stores the notes of a volume. Empty: removes them.
    pub(crate) fn set_notes(
        &self,
        key: &VolumeKey,
        notes: &BTreeMap<String, String>,
    ) -> Result<(), MountError> {
        // Most volumes have none, and must not wait until those of another one are on the disk.
        if self.notes(key) == *notes {
            return Ok(());
        }
        self.update(key, |record| {
            record.notes.clone_from(notes);
            Ok(())
        })
    }

    /// The intent to format the device of a volume, if one is recorded.
    pub(crate) fn intent(&self, key: &VolumeKey) -> Option<FormatIntent> {
        self.entry(key).format_intent
    }

    /// Must be called before the first byte is written; with `None` after the file system was mounted, and before a process can write to it.
    pub(crate) fn set_intent(
        &self,
        key: &VolumeKey,
        intent: Option<FormatIntent>,
    ) -> Result<(), MountError> {
        // The same as for notes: only the holder of the volume's claim changes them.
        if self.intent(key) == intent {
            return Ok(());
        }
        self.update(key, |record| {
            record.format_intent = intent;
            Ok(())
        })
    }

    /// Forgets old intents for volumes that are not staged: a stage that was given up leaves one, and DeleteVolume is not for this node to hear.
    pub(crate) fn forget_intents(&self, now: SystemTime, is_staged: impl Fn(&VolumeKey) -> bool) {
        let is_old = |record: &DurableRecord| {
            let age = record
                .format_intent
                .as_ref()
                .and_then(|it| age(it.uuid, now));
            age.is_some_and(|age| age >= INTENT_KEPT) && !is_staged(&record.key)
        };
        for DurableRecord { key, .. } in self.entries(is_old) {
            if let Err(error) = self.set_intent(&key, None) {
                tracing::warn!(%key.driver, %key.volume, %error, "an old record of a volume remains");
            }
        }
    }
}

/// How long ago the UUID of an intent was made. `None`: it has no time, or one to come, which this node did not write.
pub(crate) fn age(uuid: Uuid, now: SystemTime) -> Option<Duration> {
    let (seconds, _) = uuid.get_timestamp()?.to_unix();
    let made = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    now.duration_since(made).ok()
}

#[cfg(test)]
mod tests;

//! The journal: the intended and the completed work for each volume, in one file for each volume, which is written under a temporary name and
//! renamed.
//!
//! Idempotence and recovery depend on it; teardown must work without it. It lies in the run directory, which ends with the mounts that it describes,
//! so nothing is synced. Its readers must verify whether a record is still true.
//!
//! It never contains the content of files, a secret, or the request's mount flags in clear text, which the specification calls sensitive. (It
//! contains the plan's own options, since later publishes need them. A backend that copies a request's flags into them is responsible for that.)

use crate::block::BlockRecord;
use crate::observe::Identity;
use crate::plan::label::Label;
use crate::records::{Record, Records};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use wasmount_core::mounter::VolumeKey;
use wasmount_core::names::DriverName;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessType, VolumeCapability};

/// The records of all volumes.
pub(crate) type Journal = Records<Entry>;

/// The entry of one volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) schema: u32,
    pub(crate) key: VolumeKey,
    pub(crate) stage: Option<StageRecord>,
    /// The published targets, by path.
    pub(crate) targets: BTreeMap<String, TargetRecord>,
}

/// The progress of a mount. It is written before the first and after the last visible step, so everything that a killed host leaves is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Progress {
    /// Intended and perhaps done: recovery undoes it.
    Coming,
    /// Done and verified.
    Settled,
    /// Its removal is intended and perhaps done: recovery finishes it.
    Going,
}

/// A volume at its staging path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageRecord {
    pub(crate) progress: Progress,
    pub(crate) path: String,
    pub(crate) capability: RecordedCapability,
    pub(crate) plan: Plan,
    /// Identity of the mount's root. `None` for a raw block volume, of which nothing is mounted at its staging path, and while the mount is being
    /// made.
    pub(crate) identity: Option<Identity>,
    /// The block device below the volume, if there is one.
    pub(crate) block: Option<BlockRecord>,
    pub(crate) read_only: bool,
}

/// A volume at a target path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetRecord {
    pub(crate) progress: Progress,
    pub(crate) capability: RecordedCapability,
    /// The plan of the published volume. It is stored for each target, since a target may outlive the stage that it shows.
    pub(crate) plan: Plan,
    /// The plan is that of the stage. Otherwise the volume has no stage step.
    pub(crate) shows_stage: bool,
    /// Identity of the mount's root. `None` while the mount is being made.
    pub(crate) identity: Option<Identity>,
    /// A block device that is attached for targets only.
    pub(crate) block: Option<BlockRecord>,
    pub(crate) read_only: bool,
}

/// One path of a volume, staged or published.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VolumePath<'e> {
    pub(crate) is_stage: bool,
    pub(crate) path: &'e str,
    pub(crate) progress: Progress,
    pub(crate) capability: &'e RecordedCapability,
    pub(crate) plan: &'e Plan,
    pub(crate) identity: Option<Identity>,
    pub(crate) block: Option<BlockRecord>,
    pub(crate) read_only: bool,
}

/// What exists at a path of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// A mounted volume, staged or published.
    Mount(Identity),
    /// A published raw block volume: the node of its device is bind-mounted.
    Node(Identity),
    /// A staged raw block volume: nothing is mounted.
    Device(BlockRecord),
}

/// A capability that can be compared with another and contains no mount flag in clear text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedCapability {
    /// The capability without its mount flags.
    pub(crate) shape: VolumeCapability,
    /// SHA-256 of the mount flags.
    mount_flags: String,
    /// SHA-256 of the SELinux label among the flags: a volume that is staged with one label must not be published with another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

impl Record for Entry {
    const SCHEMA: u32 = 2;
    const DIRECTORY: &'static str = "journal";
    const KIND: (&'static str, &'static str) = ("journal", "run");
    const NAME: &'static str = "the mount journal";
    const IS_SYNCED: bool = false;

    fn empty(key: VolumeKey) -> Self {
        Self {
            schema: Self::SCHEMA,
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
}

impl Journal {
    /// All volumes of a driver.
    pub(crate) fn of_driver(&self, driver: &DriverName) -> Vec<Entry> {
        self.entries(|entry| entry.key.driver == *driver)
    }

    /// The volumes with a recorded mount at a path, and the identities of the roots. More than one only if a record is outdated.
    pub(crate) fn holders_of(&self, path: &str) -> Vec<(VolumeKey, Identity)> {
        let entries = self.entries(|entry| entry.is_at(path)).into_iter();
        let holders = entries.filter_map(|entry| {
            let (_, root) = entry.mounts().find(|(at, _)| *at == path)?;
            Some((entry.key, root))
        });
        holders.collect()
    }
}

impl Entry {
    /// The staging path and all target paths.
    pub(crate) fn paths(&self) -> impl DoubleEndedIterator<Item = VolumePath<'_>> {
        let targets = self.targets.iter().map(|(path, target)| VolumePath {
            is_stage: false,
            path,
            progress: target.progress,
            capability: &target.capability,
            plan: &target.plan,
            identity: target.identity,
            block: target.block,
            read_only: target.read_only,
        });
        self.stage.iter().map(StageRecord::at).chain(targets)
    }

    /// All mounts that exist, are being made or are being removed: path and identity of the root.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = (&str, Identity)> {
        self.paths().filter_map(|at| Some((at.path, at.identity?)))
    }

    /// Settled mounts of a file system: path, root, device and plan.
    pub(crate) fn settled_mounts(
        &self,
    ) -> impl Iterator<Item = (&str, Identity, Option<BlockRecord>, &Plan)> {
        self.paths()
            .filter(|at| at.progress == Progress::Settled && !at.capability.is_raw())
            .filter_map(|at| Some((at.path, at.identity?, at.block, at.plan)))
    }

    /// Every device that was attached for the volume.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockRecord> {
        self.paths().filter_map(|at| at.block)
    }

    /// Whether the volume is staged or published at a path, or is being set up or torn down there.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        self.is_staged_at(path) || self.targets.contains_key(path)
    }

    /// Whether this is the staging path, whatever the progress of the stage is.
    pub(crate) fn is_staged_at(&self, path: &str) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.path == path)
    }

    /// The stage, if it is settled.
    pub(crate) fn settled_stage(&self) -> Option<&StageRecord> {
        self.stage
            .as_ref()
            .filter(|stage| stage.progress == Progress::Settled)
    }
}

impl StageRecord {
    pub(crate) fn at(&self) -> VolumePath<'_> {
        VolumePath {
            is_stage: true,
            path: &self.path,
            progress: self.progress,
            capability: &self.capability,
            plan: &self.plan,
            identity: self.identity,
            block: self.block,
            read_only: self.read_only,
        }
    }
}

impl VolumePath<'_> {
    /// What must be visible there once it is settled.
    pub(crate) fn shows(&self) -> Option<Shows> {
        match (self.identity, self.block) {
            (Some(identity), _) if self.capability.is_raw() => Some(Shows::Node(identity)),
            (Some(identity), _) => Some(Shows::Mount(identity)),
            (None, block) => block.map(Shows::Device),
        }
    }
}

impl TargetRecord {
    /// The device of a raw block volume that is attached for targets only.
    pub(crate) fn raw(&self) -> Option<BlockRecord> {
        self.block.filter(|_| self.capability.is_raw())
    }
}

impl RecordedCapability {
    /// Whether the volume is a device and not a file system.
    pub(crate) fn is_raw(&self) -> bool {
        self.shape.access_type == AccessType::Block
    }

    /// Extracts what is recorded.
    pub(crate) fn of(capability: &VolumeCapability) -> Self {
        let mut shape = capability.clone();
        let mut hash = Sha256::new();
        let mut label = None;
        if let AccessType::Mount(access) = &mut shape.access_type {
            // The flags come from a checked request: invalid ones were refused before.
            let found = Label::of_flags(&access.mount_flags).ok().flatten();
            label = found.map(|label| hex::encode(Sha256::digest(label.as_str())));
            for flag in access.mount_flags.drain(..) {
                // Each flag is hashed with its length, so that different lists have different hashes.
                hash.update(flag.len().to_le_bytes());
                hash.update(flag);
            }
        }
        Self {
            shape,
            mount_flags: hex::encode(hash.finalize()),
            label,
        }
    }
}

/// A plan without the values that must not be stored.
pub(crate) fn recorded_plan(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    if let Source::Files { files } = &mut plan.source {
        files.iter_mut().for_each(|file| file.content.clear());
    }
    plan
}

#[cfg(test)]
mod tests;

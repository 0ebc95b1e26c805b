//! NodeStageVolume: mounts the source of a plan at the staging path that the client created. For a raw block volume it only attaches the device,
//! because CSI requires nothing at the staging path.
//!
//! The order is: everything is checked; the mount is made, detached; the journal records that it is being made; it is attached and verified; the
//! journal records that it is settled. After a kill at any step, recovery finds either nothing or a record that says what to undo.

use crate::block::loop_device::{self, Tag};
use crate::block::{BlockDevice, BlockRecord, node_device};
use crate::encryption;
use crate::executor::{PreparedMount, attach};
use crate::journal::{Progress, RecordedCapability, StageRecord, VolumePath, recorded_plan};
use crate::kubelet_path::Purpose;
use crate::node::{Node, Place, describe_volume, is_certain, place, refuse_content};
use crate::observe::{Identity, SeenMount};
use crate::plan::{self, CheckedPlan, CheckedSource, Form};
use crate::roots::CheckedPath;
use crate::source::{Preparation, Prepared, block_below, image, is_shown};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::{MountError, StageVolume, Staged, StagedQuery, VolumeKey};
use wasmount_core::volume::{AccessType, VolumeCapability};

/// A checked stage request.
struct Stage<'r> {
    request: &'r StageVolume,
    path: &'r CheckedPath,
    checked: &'r CheckedPlan,
}

/// The result of a stage or a publish, as it is recorded.
#[derive(Clone, Copy, Default)]
pub(crate) struct MountState {
    /// Identity of the mount's root.
    pub(crate) identity: Option<Identity>,
    pub(crate) block: Option<BlockRecord>,
}

impl Node {
    /// Whether journal and kernel agree that the volume is staged.
    pub(crate) fn staged(&self, query: &StagedQuery) -> Result<Staged, MountError> {
        let path = self.roots.check(&query.staging_path)?;
        let Some(found) = self.stage_in_force(&query.key, &path)? else {
            return Ok(Staged::No);
        };
        ensure_same_capability(&query.key, &found, &query.capability)?;
        Ok(Staged::AsWanted)
    }

    /// Whether a settled stage of the volume is recorded.
    pub(crate) fn has_stage(&self, key: &VolumeKey) -> bool {
        self.journal.entry(key).settled_stage().is_some()
    }

    /// Stages.
    pub(crate) fn stage(&self, request: &StageVolume) -> Result<(), MountError> {
        let key = &request.key;
        let path = self.path_for(Purpose::Stage, key, &request.staging_path)?;
        let grants = self.grants_of(&key.driver);
        let checked = plan::check(&request.plan, &request.capability, false, &grants)?;
        if let Some(found) = self.stage_in_force(key, &path)? {
            ensure_same_capability(key, &found, &request.capability)?;
            if found.plan.luks.is_some() != checked.is_encrypted {
                return Err(staged_differently(key, &found, "with other encryption"));
            }
            if found.plan.source != recorded_plan(&request.plan).source {
                return Err(staged_differently(key, &found, "from another source"));
            }
            return Ok(());
        }
        self.undo(key, |at| at.is_stage)?;

        let stage = Stage {
            request,
            path: &path,
            checked: &checked,
        };
        let location = path.locate()?.ok_or_else(|| no_directory(&path))?;
        match place(&location)? {
            Place::Directory(directory) => {
                // For a raw block volume nothing is mounted there.
                if request.capability.access_type != AccessType::Block {
                    refuse_content(&directory, &location)?;
                }
                self.ensure_no_other_source(&stage)?;
                self.stage_anew(&stage, &directory)
            }
            Place::Missing => Err(no_directory(&path)),
            Place::File(..) => Err(location.occupied("it is not a directory")),
            Place::Taken(mount) => self.stage_again(&stage, &mount),
        }
    }

    /// Handles a mount at the staging path that no record of this volume names.
    fn stage_again(&self, stage: &Stage<'_>, mount: &SeenMount) -> Result<(), MountError> {
        let checked = stage.checked;
        if !is_shown(&checked.source, mount)? || !checked.flags.agree_with(mount.flags()?) {
            return Err(MountError::already_exists(
                format!("a mount at {}", stage.path.text()),
                "it is not this volume's; unmount it first",
            ));
        }
        // It is staged exactly so, and the journal was lost.
        let state = MountState::of_unrecorded(mount, &checked.source)?;
        self.durable
            .set_notes(&stage.request.key, &stage.request.plan.notes)?;
        self.record_stage(stage, state, Progress::Settled)
    }

    /// Targets may outlive the stage that they show: a new stage must have the same source.
    fn ensure_no_other_source(&self, stage: &Stage<'_>) -> Result<(), MountError> {
        let key = &stage.request.key;
        let requested = recorded_plan(&stage.request.plan).source;
        for (path, identity, _, shown) in self.journal.entry(key).settled_mounts() {
            if shown.source != requested && is_certain(self.still_mounted(path, Some(identity)))? {
                return Err(MountError::already_exists(
                    describe_volume(key),
                    format!(
                        "another source of this volume is still published at {path}; unpublish it first"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// From the first record on, the source is in use: no call can remove an image during its `mkfs`.
    fn stage_anew(&self, stage: &Stage<'_>, directory: &OwnedFd) -> Result<(), MountError> {
        let key = &stage.request.key;
        let notes = self.durable.notes(key);
        let done = self
            .durable
            .set_notes(key, &stage.request.plan.notes)
            .and_then(|()| self.record_stage(stage, MountState::default(), Progress::Coming))
            .and_then(|()| self.make_stage(stage, directory));
        let Err(error) = done else {
            return Ok(());
        };
        if let Err(left) = self.durable.set_notes(key, &notes) {
            tracing::warn!(%key.driver, %key.volume, error = %left, "notes of an unstaged volume remain");
        }
        let undo = self.undo(key, |at| at.is_stage);
        Err(undone(undo, error, stage.path))
    }

    fn make_stage(&self, stage: &Stage<'_>, directory: &OwnedFd) -> Result<(), MountError> {
        let StageVolume { key, plan, .. } = stage.request;
        let preparation = Preparation {
            node: self,
            key,
            source: &recorded_plan(plan).source,
            secret_options: &stage.request.secret_options,
            tag: &Tag::staged(key),
        };
        let prepared = match self.staged_device(stage)? {
            Some(device) => preparation.raw(stage.checked, device)?,
            None => preparation.prepare(stage.checked)?,
        };
        let state = match &prepared {
            Prepared::Mount(mount) => MountState::of(mount),
            Prepared::Device(device) => MountState {
                identity: None,
                block: Some(device.record()),
            },
        };
        self.record_stage(stage, state, Progress::Coming)?;
        match &prepared {
            Prepared::Mount(mount) => attach(mount, directory, stage.path, stage.checked.flags)?,
            Prepared::Device(device) if device.is_loop() => loop_device::keep(device)?,
            // A map outlives this host, and nothing else can use the device below it.
            Prepared::Device(device) if device.storage.is_some() => {}
            // Checked once more, now that a concurrent stage of another volume has its record.
            Prepared::Device(device) => self.ensure_device_unclaimed(key, device)?,
        }
        self.record_stage(stage, state, Progress::Settled)
    }

    /// The loop device of a raw block volume whose journal was lost: users may still have it open.
    fn staged_device(&self, stage: &Stage<'_>) -> Result<Option<BlockDevice>, MountError> {
        let CheckedSource::Image(image, Form::Raw) = &stage.checked.source else {
            return Ok(None);
        };
        let tag = Tag::staged(&stage.request.key);
        let wants_read_only = stage.checked.flags.is_read_only();
        let holders = image::holders(image)?;
        let own = holders
            .iter()
            .find(|it| it.tag.as_ref() == Some(&tag) && it.read_only == wants_read_only);
        match own {
            Some(attached) => loop_device::open(&attached.record()),
            None => Ok(None),
        }
    }

    /// The notes of the plan with which the volume was staged. They outlive the journal: `before-unstage` may be called after a reboot.
    pub(crate) fn notes(&self, key: &VolumeKey) -> BTreeMap<String, String> {
        match self.journal.entry(key).stage {
            Some(stage) => stage.plan.notes,
            None => self.durable.notes(key),
        }
    }

    /// The stage record, if it is settled and matches the kernel's state. A stage at another path is an error.
    fn stage_in_force(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<Option<StageRecord>, MountError> {
        let entry = self.journal.entry(key);
        let Some(stage) = entry.settled_stage() else {
            return Ok(None);
        };
        if let Some(identity) = stage.identity {
            let Some(mount) = self.mounted(&stage.path, identity)? else {
                return Ok(None);
            };
            match (mount.is_read_only()?, stage.read_only) {
                (true, false) => return Err(made_read_only(key, &stage.path)),
                (false, true) => return Ok(None),
                _ => {}
            }
        }
        if !self.has_device(key, &stage.at())? {
            return Ok(None);
        }
        if stage.path != path.text() {
            let difference = format!("it is staged at {}", stage.path);
            return Err(MountError::already_exists(describe_volume(key), difference));
        }
        Ok(Some(stage.clone()))
    }

    /// Whether the device below a volume is still the recorded one: the kernel reuses device numbers.
    pub(crate) fn has_device(
        &self,
        key: &VolumeKey,
        at: &VolumePath<'_>,
    ) -> Result<bool, MountError> {
        let Some(block) = at.block else {
            return Ok(true);
        };
        // A mount holds its map; nothing holds that of a raw block volume.
        if at.plan.luks.is_some() && at.is_stage && at.identity.is_none() {
            return Ok(encryption::is_open(key, &block));
        }
        if block.backing.is_some() {
            return loop_device::is_bound(&block);
        }
        // A mount holds its device; a raw device is identified by its facts.
        if at.identity.is_some() {
            return Ok(true);
        }
        let grants = self.grants_of(&key.driver);
        match plan::check(at.plan, &at.capability.shape, false, &grants)?.source {
            CheckedSource::Device(device, _) => {
                Ok(node_device::find(&device)? == Some(block.number))
            }
            _ => Ok(false),
        }
    }

    fn record_stage(
        &self,
        stage: &Stage<'_>,
        state: MountState,
        progress: Progress,
    ) -> Result<(), MountError> {
        let request = stage.request;
        self.journal.update(&request.key, |entry| {
            entry.stage = Some(StageRecord {
                progress,
                path: stage.path.text().to_owned(),
                capability: RecordedCapability::of(&request.capability),
                plan: recorded_plan(&request.plan),
                identity: state.identity,
                block: state.block,
                read_only: stage.checked.flags.is_read_only(),
            });
            Ok(())
        })
    }
}

impl MountState {
    pub(crate) fn of(mount: &PreparedMount) -> Self {
        Self {
            identity: Some(mount.identity),
            block: mount.block,
        }
    }

    /// The state of an unrecorded mount.
    pub(crate) fn of_unrecorded(
        mount: &SeenMount,
        source: &CheckedSource,
    ) -> Result<Self, MountError> {
        let is_on_device = matches!(source, CheckedSource::Image(..) | CheckedSource::Device(..));
        Ok(Self {
            identity: Some(mount.identity),
            block: if is_on_device {
                block_below(mount)?
            } else {
                None
            },
        })
    }
}

/// The answer after a failure that was undone. If the undo failed, parts may remain for the client to clean up, which it does after an answer that is
/// not final.
pub(crate) fn undone(
    undone: Result<(), MountError>,
    error: MountError,
    path: &CheckedPath,
) -> MountError {
    let Err(left) = undone else {
        return error;
    };
    tracing::warn!(path = path.text(), %error, %left, "rollback of a failed step failed; the next call or start retries");
    MountError::under_way(format!("rolling back {}: {error}", path.text()))
}

/// The kernel makes a file system read-only when it finds an error in it.
pub(crate) fn made_read_only(key: &VolumeKey, path: &str) -> MountError {
    MountError::unusable(
        format!("{} at {path}", describe_volume(key)),
        "its mount was made read-only, by the kernel because of an error or by a person; look at the kernel's log, then unpublish and unstage it",
    )
}

fn ensure_same_capability(
    key: &VolumeKey,
    found: &StageRecord,
    requested: &VolumeCapability,
) -> Result<(), MountError> {
    if found.capability == RecordedCapability::of(requested) {
        return Ok(());
    }
    Err(staged_differently(key, found, "with another capability"))
}

fn staged_differently(key: &VolumeKey, found: &StageRecord, how: &str) -> MountError {
    let volume = format!("{} at {}", describe_volume(key), found.path);
    MountError::already_exists(volume, format!("it is staged {how}"))
}

fn no_directory(path: &CheckedPath) -> MountError {
    MountError::precondition(
        path.text(),
        "the client makes the staging directory before it calls NodeStageVolume",
    )
}

//! The checks of a publish: against the request, the stage, the record of an earlier call, and mounts without a record.

use super::{Origin, Publish};
use crate::block::BlockDevice;
use crate::block::{BlockRecord, loop_device, loop_device::Tag};
use crate::failure::kernel;
use crate::journal::{
    Entry, Progress, RecordedCapability, StageRecord, TargetRecord, recorded_plan,
};
use crate::kubelet_path::Purpose;
use crate::node::{Node, describe_volume};
use crate::observe::{SeenMount, is_removed};
use crate::plan::{self, CheckedSource};
use crate::source;
use crate::stage::{MountState, made_read_only};
use std::collections::BTreeSet;
use wasmount_core::mounter::{MountError, PublishVolume};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::AccessMode;

const IMAGE_REMOVED: &str = "its image was removed from the pool, so that whatever is written now is lost when it is unstaged; copy its data away from pods that still run, then delete them";
const DIRECTORY_REMOVED: &str = "its directory was removed from the pool, so that nothing can be written there any more; delete the pods that use it, and restore the volume";
/// The mode that allows only one publish of a volume (CSI specification, NodePublishVolume).
const SINGLE: AccessMode = AccessMode::SingleNodeSingleWriter;

impl Node {
    pub(super) fn checked<'r>(
        &self,
        request: &'r PublishVolume,
    ) -> Result<Publish<'r>, MountError> {
        let key = &request.key;
        let path = self.path_for(Purpose::Publish, key, &request.target_path)?;
        let grants = self.grants_of(&key.driver);
        let entry = self.journal.entry(key);
        let check = |plan: &Plan| plan::check(plan, &request.capability, request.readonly, &grants);
        let (plan, origin) = match &request.plan {
            Some(plan) => (check(plan)?, Origin::Plan(plan)),
            None => {
                let stage = self.stage_to_publish(request, &entry)?;
                (check(&stage.plan)?, self.staged_origin(request, stage)?)
            }
        };
        let publish = Publish {
            request,
            path,
            origin,
            plan,
        };
        if entry.is_staged_at(publish.path.text()) {
            return Err(publish.differs("the target is the staging path; name another"));
        }
        if publish.plan.flags.is_read_only() {
            return Ok(publish);
        }
        if let Some(stage) = entry.stage.filter(|_| request.plan.is_none()) {
            if stage.read_only {
                return Err(publish.differs("the volume is staged read-only"));
            }
            if let Origin::Stage(mount) = &publish.origin
                && mount.is_read_only()?
            {
                return Err(made_read_only(key, &stage.path));
            }
        }
        Ok(publish)
    }

    fn stage_to_publish<'e>(
        &self,
        request: &PublishVolume,
        entry: &'e Entry,
    ) -> Result<&'e StageRecord, MountError> {
        let Some(staging_path) = &request.staging_path else {
            return Err(MountError::not_staged("an empty staging_target_path"));
        };
        let path = self.roots.check(staging_path)?;
        let stage = entry.settled_stage();
        stage
            .filter(|stage| stage.path == path.text())
            .ok_or_else(|| MountError::not_staged(path.text()))
    }

    fn staged_origin<'r>(
        &self,
        request: &PublishVolume,
        stage: &StageRecord,
    ) -> Result<Origin<'r>, MountError> {
        let capability = RecordedCapability::of(&request.capability);
        let differs = |difference| {
            Err(MountError::already_exists(
                describe_volume(&request.key),
                difference,
            ))
        };
        // A bind mount has the labels of its source. Kubelet unstages before it uses another pod's label; a request without a label accepts any.
        if capability.label.is_some() && capability.label != stage.capability.label {
            return differs("it is staged without this SELinux label; unstage it first");
        }
        if capability.is_raw() != stage.capability.is_raw() {
            return differs("it is staged with another access type");
        }
        let path = self.roots.check_text(&stage.path)?;
        let origin = match (stage.identity, stage.block) {
            _ if !self.has_device(&request.key, &stage.at())? => None,
            (Some(identity), _) => self.mounted(&path, identity)?.map(Origin::Stage),
            (None, block) => block.map(Origin::Device),
        };
        origin.ok_or_else(|| MountError::not_staged(path.text()))
    }

    /// Refuses a new target of a stage whose image or directory was removed. It reads only sysfs and the mount's inode, so it does not wait for
    /// storage. Existing targets stay: running programs must be able to copy their data away.
    pub(super) fn ensure_source_exists(&self, publish: &Publish<'_>) -> Result<(), MountError> {
        let key = &publish.request.key;
        let Some(stage) = self.journal.entry(key).stage else {
            return Ok(());
        };
        let reason = match (&stage.plan.source, stage.block, &publish.origin) {
            (Source::Image { path, .. }, Some(block), _) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                loop_device::is_backing_removed(block.number, name).then_some(IMAGE_REMOVED)
            }
            (Source::Directory { .. }, _, Origin::Stage(mount)) => is_removed(&mount.root)
                .map_err(|errno| kernel("statx", &stage.path, errno))?
                .then_some(DIRECTORY_REMOVED),
            _ => None,
        };
        reason.map_or(Ok(()), |reason| {
            Err(MountError::unusable(describe_volume(key), reason))
        })
    }

    /// If only one publish is allowed, a mount without a record counts too: the journal may have been lost.
    pub(super) fn ensure_no_unrecorded_writer(
        &self,
        publish: &Publish<'_>,
    ) -> Result<(), MountError> {
        let request = publish.request;
        let is_single = request.plan.is_none() && request.capability.access_mode == SINGLE;
        let Some(staging_path) = request.staging_path.as_ref().filter(|_| is_single) else {
            return Ok(());
        };
        let staged = self.roots.check(staging_path)?;
        let own = publish.path.in_mount_table()?;
        let elsewhere = self.shown_elsewhere(&request.key, &staged)?;
        match elsewhere.iter().find(|point| Some(*point) != own.as_ref()) {
            None => Ok(()),
            Some(point) => Err(publish.second_writer(&point.display().to_string())),
        }
    }

    /// Other targets that are recorded as settled but whose mounts are gone: they do not conflict. One that cannot be checked counts as mounted.
    pub(super) fn outdated_targets(&self, publish: &Publish<'_>) -> BTreeSet<String> {
        let entry = self.journal.entry(&publish.request.key);
        let is_gone = |path: &str, target: &TargetRecord| {
            target.progress == Progress::Settled
                && self
                    .still_mounted(path, target.identity)
                    .is_ok_and(|mounted| !mounted)
        };
        let targets = entry.targets.into_iter();
        targets
            .filter(|(path, target)| publish.is_single_beside(target) && is_gone(path, target))
            .map(|(path, _)| path)
            .collect()
    }

    /// The state of an unrecorded mount at the target, if it shows exactly the volume to be published: this is the case after a lost journal. If the
    /// kernel alone cannot prove that, the answer is no: the client unmounts it then.
    pub(super) fn unrecorded_target(
        &self,
        publish: &Publish<'_>,
        mount: &SeenMount,
    ) -> Result<Option<MountState>, MountError> {
        let plan = &publish.plan;
        if !plan.flags.agree_with(mount.flags()?) {
            return Ok(None);
        }
        let shown = |block| MountState {
            identity: Some(mount.identity),
            block,
        };
        Ok(match &publish.origin {
            Origin::Stage(stage) => (stage.identity == mount.identity).then_some(shown(None)),
            Origin::Device(block) if !plan.flags.is_read_only() => {
                publish.is_node_of(block, mount)?.then_some(shown(None))
            }
            Origin::Plan(_) if !publish.is_raw() => match source::is_shown(&plan.source, mount)? {
                true => Some(MountState::of_unrecorded(mount, &plan.source)?),
                false => None,
            },
            // A device that is attached for targets only is found by its tag.
            Origin::Device(_) | Origin::Plan(_) => self
                .tagged_device(publish, mount)?
                .map(|block| shown(Some(block))),
        })
    }

    /// The device with this target's tag, if the mount shows its node.
    fn tagged_device(
        &self,
        publish: &Publish<'_>,
        mount: &SeenMount,
    ) -> Result<Option<BlockRecord>, MountError> {
        let tag = Tag::target(&publish.request.key, publish.path.text());
        for kept in self.kept_devices(&publish.request.key)? {
            let record = kept.attached.record();
            if kept.attached.tag.as_ref() == Some(&tag)
                && kept.attached.read_only == publish.plan.flags.is_read_only()
                && let Some(device) = loop_device::open(&record)?
                && device.node()? == mount.identity
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl Publish<'_> {
    /// A repeated call for a target: an equal request is a success, any other is refused.
    pub(super) fn ensure_same(
        &self,
        record: &TargetRecord,
        mount: &SeenMount,
    ) -> Result<(), MountError> {
        let same_source = match &self.origin {
            Origin::Stage(stage) => record.identity == Some(stage.identity),
            Origin::Device(block) => match record.block {
                Some(own) => loop_device::is_bound(&own)?,
                // The kernel reuses numbers: the node may belong to another volume by now.
                None => self.is_node_of(block, mount)?,
            },
            // Files are replaced as a whole.
            Origin::Plan(_) if matches!(self.plan.source, CheckedSource::Files(_)) => {
                matches!(record.plan.source, Source::Files { .. })
            }
            Origin::Plan(plan) => {
                !record.shows_stage && recorded_plan(plan).source == record.plan.source
            }
        };
        if !same_source {
            return Err(self.differs("it shows another source"));
        }
        if mount.is_read_only()? != self.plan.flags.is_read_only() {
            return Err(self.differs("the one is read-only and the other is not"));
        }
        if record.capability != RecordedCapability::of(&self.request.capability) {
            return Err(self.differs("it was published with another capability"));
        }
        Ok(())
    }

    /// Refuses a target in addition to another one (CSI specification, NodePublishVolume, the table of repeated calls).
    pub(super) fn ensure_no_other_writer(
        &self,
        entry: &Entry,
        outdated: &BTreeSet<String>,
    ) -> Result<(), MountError> {
        let other = entry.targets.iter().find(|(path, target)| {
            *path != self.path.text() && self.is_single_beside(target) && !outdated.contains(*path)
        });
        match other {
            None => Ok(()),
            Some((path, _)) => Err(self.second_writer(path)),
        }
    }

    fn is_single_beside(&self, other: &TargetRecord) -> bool {
        self.request.capability.access_mode == SINGLE
            || other.capability.shape.access_mode == SINGLE
    }

    fn second_writer(&self, path: &str) -> MountError {
        let by = format!(
            "it is published at {path}, and only one publish may be (SINGLE_NODE_SINGLE_WRITER)"
        );
        MountError::in_use(describe_volume(&self.request.key), by)
    }

    /// Whether a mount shows the node of the staged device.
    fn is_node_of(&self, block: &BlockRecord, mount: &SeenMount) -> Result<bool, MountError> {
        match BlockDevice::recorded(block, &self.plan.source)? {
            Some(device) => Ok(device.node()? == mount.identity),
            None => Ok(false),
        }
    }
}

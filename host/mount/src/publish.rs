//! NodePublishVolume: publishes a staged volume, or the plan of a volume without a stage step, at a target that is created here.
//!
//! The order is that of `stage`. A read-only publish is read-only before it is attached, whatever the stage is; no other mount changes for it.

mod unrecorded;

use crate::block::BlockRecord;
use crate::block::loop_device::{self, Tag};
use crate::encryption::volume_device;
use crate::executor::{PreparedMount, attach, clone_mount, dress};
use crate::group;
use crate::journal::{
    Entry, Progress, RecordedCapability, StageRecord, TargetRecord, recorded_plan,
};
use crate::kubelet_path::Purpose;
use crate::node::{Node, Place, create_target, describe_volume, place};
use crate::observe::SeenMount;
use crate::plan::{self, CheckedPlan, CheckedSource};
use crate::roots::{CheckedPath, Location};
use crate::source::{self, Preparation, Prepared};
use crate::stage::{MountState, made_read_only, undone};
use std::collections::BTreeSet;
use wasmount_core::mounter::{MountError, PublishVolume};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessMode, AccessType};

/// The mode that allows only one publish of a volume (CSI specification, NodePublishVolume).
const SINGLE: AccessMode = AccessMode::SingleNodeSingleWriter;

/// The source of a publish.
enum Origin<'r> {
    /// The mount at the staging path.
    Stage(SeenMount),
    /// The device of a raw block volume that is staged.
    Device(BlockRecord),
    /// The request's own plan.
    Plan(&'r Plan),
}

/// A checked publish request.
struct Publish<'r> {
    request: &'r PublishVolume,
    path: CheckedPath,
    origin: Origin<'r>,
    /// The request's own plan, or that of the stage. Its group is applied to the staged volume: pods on one node may use different groups.
    plan: CheckedPlan,
}

impl Node {
    /// Publishes.
    pub(crate) fn publish(&self, request: &PublishVolume) -> Result<(), MountError> {
        let publish = self.checked(request)?;
        let path = &publish.path;
        let no_parent = || {
            MountError::precondition(
                path.text(),
                "the client makes the directory above the target before it calls NodePublishVolume",
            )
        };
        let location = path.locate()?.ok_or_else(no_parent)?;
        let entry = self.journal.entry(&request.key);
        match (entry.targets.get(path.text()), place(&location)?) {
            (Some(record), Place::Taken(mount))
                if record.progress == Progress::Settled
                    && record.identity == Some(mount.identity) =>
            {
                publish.ensure_same(record, &mount)?;
                return self.publish_again(&publish, record, &mount);
            }
            (Some(record), found) if record.progress != Progress::Settled => {
                drop(found);
                self.undo(&request.key, |at| at.path == path.text())?;
            }
            (None, Place::Taken(mount)) => {
                if let Some(state) = self.unrecorded_target(&publish, &mount)? {
                    // It is published exactly so, and the journal was lost.
                    self.ensure_no_unrecorded_writer(&publish)?;
                    return self.record_target(&publish, state, Progress::Settled);
                }
            }
            (Some(_), Place::Missing | Place::Directory(_) | Place::File(..)) => {
                // An administrator unmounted it.
                self.forget_target(&request.key, path.text())?;
            }
            _ => {}
        }
        if let Place::Taken(_) = place(&location)? {
            return Err(publish.differs("something else is mounted there; unmount it first"));
        }
        self.ensure_no_unrecorded_writer(&publish)?;
        self.publish_anew(&publish, &location)
    }

    /// A repeated call for a target. Files are replaced: kubelet repeats the call for a driver with `requiresRepublish`.
    fn publish_again(
        &self,
        publish: &Publish<'_>,
        record: &TargetRecord,
        mount: &SeenMount,
    ) -> Result<(), MountError> {
        let (Origin::Plan(_), CheckedSource::Files(files)) =
            (&publish.origin, &publish.plan.source)
        else {
            return Ok(());
        };
        source::files::replace(&mount.root, files, publish.plan.group)?;
        let state = MountState {
            identity: Some(mount.identity),
            block: record.block,
        };
        self.record_target(publish, state, Progress::Settled)
    }

    fn publish_anew(&self, publish: &Publish<'_>, location: &Location) -> Result<(), MountError> {
        let key = &publish.request.key;
        let done = match &publish.origin {
            // The volume is set up here, which may take as long as a `mkfs`: from this record on its source is in use.
            Origin::Plan(_) => {
                let _alone = self.alone(key)?;
                self.record_target(publish, MountState::default(), Progress::Coming)
                    .and_then(|()| self.make_target(publish, location))
            }
            Origin::Stage(mount) => self
                .ensure_source_exists(key, Some(mount))
                .and_then(|()| self.make_target(publish, location)),
            Origin::Device(_) => self
                .ensure_source_exists(key, None)
                .and_then(|()| self.make_target(publish, location)),
        };
        done.map_err(|error| {
            let undo = self.undo(key, |at| at.path == publish.path.text());
            undone(undo, error, &publish.path)
        })
    }

    fn make_target(&self, publish: &Publish<'_>, location: &Location) -> Result<(), MountError> {
        let prepared = self.prepare_target(publish)?;
        let state = MountState::of(&prepared);
        self.record_target(publish, state, Progress::Coming)?;
        if let (true, Some(device)) = (publish.is_raw(), &prepared.device)
            && device.is_loop()
        {
            // From here on the device must outlive this host: a pod uses only its node.
            loop_device::keep(device)?;
        }
        let target = create_target(location, publish.is_raw())?;
        attach(&prepared, &target, &publish.path, publish.plan.flags)?;
        self.record_target(publish, state, Progress::Settled)
    }

    /// The detached mount that the target will show.
    fn prepare_target(&self, publish: &Publish<'_>) -> Result<PreparedMount, MountError> {
        let key = &publish.request.key;
        let tag = Tag::target(key, publish.path.text());
        let CheckedPlan { source, flags, .. } = &publish.plan;
        match &publish.origin {
            Origin::Plan(plan) => {
                let preparation = Preparation {
                    node: self,
                    key,
                    source: &recorded_plan(plan).source,
                    secret_options: &publish.request.secret_options,
                    tag: &tag,
                };
                match preparation.prepare(&publish.plan)? {
                    Prepared::Mount(mount) => Ok(mount),
                    Prepared::Device(device) => {
                        PreparedMount::showing(device, source, *flags, &tag)
                    }
                }
            }
            Origin::Device(block) => {
                let device = volume_device(key, block, &publish.plan)?;
                let device = device.ok_or_else(|| {
                    MountError::not_staged("its staging path: the device is gone")
                })?;
                if flags.is_read_only() && !device.is_read_only {
                    PreparedMount::showing(device, source, *flags, &tag)
                } else {
                    PreparedMount::of_device(&device, *flags)
                }
            }
            Origin::Stage(stage) => {
                let what = describe_volume(key);
                let mount = clone_mount(&stage.root, &what)?;
                dress(&mount, *flags, &what)?;
                if let Some(group) = publish.plan.group {
                    group::apply(&mount, group, flags.is_read_only())?;
                }
                PreparedMount::of(mount)
            }
        }
    }

    fn record_target(
        &self,
        publish: &Publish<'_>,
        state: MountState,
        progress: Progress,
    ) -> Result<(), MountError> {
        let request = publish.request;
        let outdated = self.outdated_targets(publish);
        let plan = match (&publish.origin, self.journal.entry(&request.key).stage) {
            (Origin::Plan(plan), _) => recorded_plan(plan),
            (_, Some(stage)) => stage.plan,
            (_, None) => return Err(publish.differs("it is not staged any more")),
        };
        self.journal.update(&request.key, |entry| {
            // Checked here, because the lock makes check and record one step: of two concurrent publishes one is second.
            publish.ensure_no_other_writer(entry, &outdated)?;
            let record = TargetRecord {
                progress,
                capability: RecordedCapability::of(&request.capability),
                plan,
                shows_stage: request.plan.is_none(),
                identity: state.identity,
                block: state.block,
                read_only: publish.plan.flags.is_read_only(),
            };
            entry.targets.insert(publish.path.text().to_owned(), record);
            Ok(())
        })
    }

    fn checked<'r>(&self, request: &'r PublishVolume) -> Result<Publish<'r>, MountError> {
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
        let origin = match (stage.identity, stage.block) {
            _ if !self.has_device(&request.key, &stage.at())? => None,
            (Some(identity), _) => self.mounted(&stage.path, identity)?.map(Origin::Stage),
            (None, block) => block.map(Origin::Device),
        };
        origin.ok_or_else(|| MountError::not_staged(&stage.path))
    }

    /// Other targets that are recorded as settled but whose mounts are gone: they do not conflict. One that cannot be checked counts as mounted.
    fn outdated_targets(&self, publish: &Publish<'_>) -> BTreeSet<String> {
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
}

impl Publish<'_> {
    fn is_raw(&self) -> bool {
        self.request.capability.access_type == AccessType::Block
    }

    fn differs(&self, difference: &str) -> MountError {
        let volume = describe_volume(&self.request.key);
        MountError::already_exists(format!("{volume} at {}", self.path.text()), difference)
    }

    /// A repeated call for a target: an equal request is a success, any other is refused.
    fn ensure_same(&self, record: &TargetRecord, mount: &SeenMount) -> Result<(), MountError> {
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
    fn ensure_no_other_writer(
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
}

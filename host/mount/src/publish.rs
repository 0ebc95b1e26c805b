//! NodePublishVolume: a staged volume, or the plan of one without a stage step, at a target that is made here.
//!
//! The order is that of `stage`. A read-only publish is read-only before it is attached, whatever the stage is, and nobody else's mount is
//! touched for it.

mod adopt;
mod prepare;
mod removed;
mod single_writer;
mod target;

use crate::block::loop_device;
use crate::block::{BlockDevice, BlockRecord};
use crate::executor::attach;
use crate::journal::entry::{
    Entry, Progress, RecordedCapability, StageRecord, TargetRecord, recorded_plan,
};
use crate::kubelet_path::Purpose;
use crate::node::{Node, Place, place, volume_words};
use crate::observe::{Identity, SeenMount};
use crate::plan::options::MountFlags;
use crate::plan::{self, CheckedPlan, CheckedSource};
use crate::prepared_mount::PreparedMount;
use crate::roots::{CheckedPath, Location};
use crate::source::{self};
use crate::stage::{made_read_only, undone};
use single_writer::single_writer_conflict;
use target::{make_target, make_target_file};
use wasmount_core::mounter::{MountError, PublishVolume, VolumeKey};
use wasmount_core::plan::Source;
use wasmount_core::volume::{AccessType, VolumeCapability};

/// What is to be published.
enum Published {
    /// The mount at the staging path.
    Stage(SeenMount),
    /// The device of a raw block volume that is staged.
    Device(BlockRecord, CheckedSource),
    /// The source of a plan of its own.
    Plan(CheckedPlan),
}

/// What a target comes to.
#[derive(Clone, Copy, Default)]
struct Shown {
    identity: Option<Identity>,
    /// A device for targets alone.
    block: Option<BlockRecord>,
}

/// A publish whose request was checked.
struct Publish<'r> {
    request: &'r PublishVolume,
    path: CheckedPath,
    what: Published,
    flags: MountFlags,
    /// Applied to what is staged: pods on one node may differ in it.
    group: Option<u32>,
}

impl Node {
    /// Publishes.
    pub(crate) fn publish(&self, request: &PublishVolume) -> Result<(), MountError> {
        let publish = self.checked(request)?;
        let path = &publish.path;
        let location = path.locate()?.ok_or_else(|| no_parent(path))?;
        let seen = place(&location)?;
        let entry = self.journal.entry(&request.key);
        match (entry.targets.get(path.text()), &seen) {
            (Some(record), Place::Taken(mount))
                if record.progress == Progress::Settled
                    && record.identity == Some(mount.identity) =>
            {
                publish.same_as(record, mount)?;
                return self.publish_again(&publish, record, mount);
            }
            (Some(record), _) if record.progress != Progress::Settled => {
                drop(seen);
                self.undo_target(&request.key, path.text())?;
            }
            (None, Place::Taken(mount)) => {
                if let Some(shown) = self.shown_there(&publish, mount)? {
                    // Published just so, and the journal was lost.
                    return self.record_target(&publish, shown, Progress::Settled);
                }
                drop(seen);
            }
            (Some(_), Place::Missing | Place::Directory(_) | Place::File(..)) => {
                // Somebody took the mount off.
                drop(seen);
                self.forget_target(&request.key, path.text())?;
            }
            _ => drop(seen),
        }
        if let Place::Taken(_) = place(&location)? {
            return Err(publish.otherwise("something else is mounted there; unmount it first"));
        }
        self.publish_anew(&publish, &location)
    }

    /// The second call for a target. Files are replaced: kubelet calls again and again for a driver with `requiresRepublish`.
    fn publish_again(
        &self,
        publish: &Publish<'_>,
        record: &TargetRecord,
        mount: &SeenMount,
    ) -> Result<(), MountError> {
        let Published::Plan(CheckedPlan {
            source: CheckedSource::Files(files),
            group,
            ..
        }) = &publish.what
        else {
            return Ok(());
        };
        source::files::replace(&mount.root, files, *group)?;
        let shown = Shown {
            identity: Some(mount.identity),
            block: record.block,
        };
        self.record_target(publish, shown, Progress::Settled)
    }

    fn publish_anew(&self, publish: &Publish<'_>, location: &Location) -> Result<(), MountError> {
        let key = &publish.request.key;
        let done = match &publish.what {
            // The volume is made here, which may take as long as a `mkfs`: from this record on its source is in use.
            Published::Plan(_) => {
                let _alone = self.alone(key)?;
                self.record_target(publish, Shown::default(), Progress::Coming)
                    .and_then(|()| self.make_and_show(publish, location))
            }
            Published::Stage(_) | Published::Device(..) => {
                self.refuse_removed(publish)?;
                self.make_and_show(publish, location)
            }
        };
        done.map_err(|error| {
            let undo = self.undo_target(key, publish.path.text());
            undone(undo, error, &publish.path)
        })
    }

    fn make_and_show(&self, publish: &Publish<'_>, location: &Location) -> Result<(), MountError> {
        let prepared = self.prepare_target(publish)?;
        let shown = Shown {
            identity: Some(prepared.identity),
            block: prepared.block.filter(|_| publish.owns_device()),
        };
        self.record_target(publish, shown, Progress::Coming)?;
        self.show(publish, &prepared, location)?;
        self.record_target(publish, shown, Progress::Settled)
    }

    fn show(
        &self,
        publish: &Publish<'_>,
        prepared: &PreparedMount,
        location: &Location,
    ) -> Result<(), MountError> {
        if let (true, Some(device)) = (publish.is_raw(), &prepared.device)
            && device.backing.is_some()
        {
            // From here on it must outlive this host: a pod has only a name of it.
            loop_device::keep(device)?;
        }
        let target = if publish.is_raw() {
            make_target_file(location)?
        } else {
            make_target(location)?
        };
        attach(prepared, &target, &publish.path, publish.flags)
    }

    fn checked<'r>(&self, request: &'r PublishVolume) -> Result<Publish<'r>, MountError> {
        let path = self.path_for(Purpose::Publish, &request.key, &request.target_path)?;
        let grants = self.grants_of(&request.key.driver);
        let entry = self.journal.entry(&request.key);
        let capability = &request.capability;
        let (what, flags, group) = if let Some(plan) = &request.plan {
            let checked = plan::check(plan, capability, request.readonly, &grants)?;
            let (flags, group) = (checked.flags, checked.group);
            (Published::Plan(checked), flags, group)
        } else {
            let stage = self.stage_to_publish(request, &entry)?;
            let checked = plan::check(&stage.plan, capability, request.readonly, &grants)?;
            refuse_other_label(&request.key, &stage, capability)?;
            let what = self.staged_source(request, &stage, checked.source)?;
            (what, checked.flags, checked.group)
        };
        let publish = Publish {
            request,
            path,
            what,
            flags,
            group,
        };
        if entry.is_staged_at(publish.path.text()) {
            return Err(publish.otherwise("the target is the staging path; name another"));
        }
        if publish.flags.is_read_only() {
            return Ok(publish);
        }
        if let Some(stage) = entry.stage.filter(|_| request.plan.is_none()) {
            if stage.read_only {
                return Err(publish.otherwise("the volume is staged read-only"));
            }
            if let Published::Stage(mount) = &publish.what
                && mount.is_read_only()?
            {
                return Err(made_read_only(&request.key, &stage.path));
            }
        }
        Ok(publish)
    }

    fn stage_to_publish(
        &self,
        request: &PublishVolume,
        entry: &Entry,
    ) -> Result<StageRecord, MountError> {
        let Some(staging_path) = &request.staging_path else {
            return Err(MountError::NotStaged {
                path: "an empty staging_target_path".to_owned(),
            });
        };
        let path = self.roots.check(staging_path)?;
        match entry.settled_stage() {
            Some(stage) if stage.path == path.text() => Ok(stage.clone()),
            _ => Err(not_staged(&path)),
        }
    }

    fn staged_source(
        &self,
        request: &PublishVolume,
        stage: &StageRecord,
        source: CheckedSource,
    ) -> Result<Published, MountError> {
        let path = self.roots.check_text(&stage.path)?;
        let is_raw = request.capability.access_type == AccessType::Block;
        if is_raw != stage.capability.is_raw() {
            return Err(MountError::AlreadyExists {
                what: volume_words(&request.key),
                difference: "it is staged with another access type".to_owned(),
            });
        }
        if !self.has_device(&request.key, stage)? {
            return Err(not_staged(&path));
        }
        match (stage.identity, stage.block) {
            (Some(identity), _) => self
                .mounted(&path, identity)?
                .map(Published::Stage)
                .ok_or_else(|| not_staged(&path)),
            (None, Some(block)) => Ok(Published::Device(block, source)),
            (None, None) => Err(not_staged(&path)),
        }
    }

    fn record_target(
        &self,
        publish: &Publish<'_>,
        shown: Shown,
        progress: Progress,
    ) -> Result<(), MountError> {
        let request = publish.request;
        let outdated = self.outdated_targets(publish);
        self.refuse_unrecorded(publish)?;
        let plan = match (&request.plan, self.journal.entry(&request.key).stage) {
            (Some(plan), _) => recorded_plan(plan),
            (None, Some(stage)) => stage.plan,
            (None, None) => return Err(publish.otherwise("it is not staged any more")),
        };
        self.journal.update(&request.key, |entry| {
            // Here, since the lock makes it one step with the record: of two publishes at a time one comes second.
            if let Some(other) = single_writer_conflict(publish, entry, &outdated) {
                return Err(MountError::InUse {
                    what: volume_words(&request.key),
                    by: format!("{other}, and only one publish may be (SINGLE_NODE_SINGLE_WRITER)"),
                });
            }
            let record = TargetRecord {
                progress,
                capability: RecordedCapability::of(&request.capability),
                plan,
                shows_stage: request.plan.is_none(),
                identity: shown.identity,
                block: shown.block,
                read_only: publish.flags.is_read_only(),
            };
            entry.targets.insert(publish.path.text().to_owned(), record);
            Ok(())
        })
    }
}

impl Publish<'_> {
    fn is_raw(&self) -> bool {
        self.request.capability.access_type == AccessType::Block
    }

    /// Whether a device is there for this target, or for targets of a volume without a stage step.
    fn owns_device(&self) -> bool {
        !matches!(self.what, Published::Stage(_))
    }

    /// The second call for a target: the same is success, anything else is refused.
    fn same_as(&self, record: &TargetRecord, mount: &SeenMount) -> Result<(), MountError> {
        let same_source = match &self.what {
            Published::Stage(stage) => record.identity == Some(stage.identity),
            Published::Device(block, source) => match record.block {
                Some(own) => loop_device::is_bound(&own)?,
                // Numbers are given anew: the node may be another volume's by now.
                None => match BlockDevice::recorded(block, source)? {
                    Some(device) => device.node()? == mount.identity,
                    None => false,
                },
            },
            // Files are replaced as a whole.
            Published::Plan(CheckedPlan {
                source: CheckedSource::Files(_),
                ..
            }) => matches!(record.plan.source, Source::Files { .. }),
            Published::Plan(_) => {
                let wanted = self.request.plan.as_ref().map(recorded_plan);
                !record.shows_stage
                    && wanted.is_some_and(|wanted| wanted.source == record.plan.source)
            }
        };
        if !same_source {
            return Err(self.otherwise("it shows another source"));
        }
        if mount.is_read_only()? != self.flags.is_read_only() {
            return Err(self.otherwise("the one is read-only and the other is not"));
        }
        if record.capability != RecordedCapability::of(&self.request.capability) {
            return Err(self.otherwise("it was published with another capability"));
        }
        Ok(())
    }

    fn otherwise(&self, difference: &str) -> MountError {
        MountError::AlreadyExists {
            what: format!(
                "{} at {}",
                volume_words(&self.request.key),
                self.path.text()
            ),
            difference: difference.to_owned(),
        }
    }
}

/// A bind has the labels of what it shows. Kubelet unstages before another pod's label is used; what asks for none takes what is there.
fn refuse_other_label(
    key: &VolumeKey,
    stage: &StageRecord,
    wanted: &VolumeCapability,
) -> Result<(), MountError> {
    match RecordedCapability::of(wanted).label {
        label if label.is_none() || label == stage.capability.label => Ok(()),
        _ => Err(MountError::AlreadyExists {
            what: volume_words(key),
            difference: "it is staged without this SELinux label; unstage it first".to_owned(),
        }),
    }
}

fn not_staged(path: &CheckedPath) -> MountError {
    MountError::NotStaged {
        path: path.text().to_owned(),
    }
}

fn no_parent(path: &CheckedPath) -> MountError {
    MountError::Precondition {
        path: path.text().to_owned(),
        what: "the client makes the directory above the target before it calls NodePublishVolume"
            .to_owned(),
    }
}

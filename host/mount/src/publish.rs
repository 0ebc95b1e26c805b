//! NodePublishVolume: publishes a staged volume, or the plan of a volume without a stage step, at a target that is created here.
//!
//! The order is that of `stage`. A read-only publish is read-only before it is attached, whatever the stage is; no other mount changes for it.

mod checks;

use crate::block::loop_device::{self, Tag};
use crate::block::{BlockDevice, BlockRecord};
use crate::executor::{PreparedMount, attach, clone_mount, dress};
use crate::failure::kernel;
use crate::group;
use crate::journal::{Progress, RecordedCapability, TargetRecord, recorded_plan};
use crate::node::{Node, Place, describe_volume, place, refuse_content};
use crate::observe::SeenMount;
use crate::plan::{CheckedPlan, CheckedSource};
use crate::roots::{CheckedPath, Location};
use crate::source::{self, Preparation, Prepared};
use crate::stage::{MountState, undone};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::{MountError, PublishVolume};
use wasmount_core::plan::Plan;
use wasmount_core::volume::AccessType;

/// Mode of a target directory, which kubelet also uses for the directories above it. The mount hides it.
const TARGET_MODE: Mode = Mode::from_raw_mode(0o750);
/// Mode of a target file. The device node hides it.
const TARGET_FILE_MODE: Mode = Mode::from_raw_mode(0o600);

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
                self.undo_target(&request.key, path.text())?;
            }
            (None, Place::Taken(mount)) => {
                if let Some(state) = self.unrecorded_target(&publish, &mount)? {
                    // It is published exactly so, and the journal was lost.
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
            Origin::Stage(_) | Origin::Device(_) => {
                self.ensure_source_exists(publish)?;
                self.make_target(publish, location)
            }
        };
        done.map_err(|error| {
            let undo = self.undo_target(key, publish.path.text());
            undone(undo, error, &publish.path)
        })
    }

    fn make_target(&self, publish: &Publish<'_>, location: &Location) -> Result<(), MountError> {
        let prepared = self.prepare_target(publish)?;
        let state = MountState::of(&prepared);
        self.record_target(publish, state, Progress::Coming)?;
        if let (true, Some(device)) = (publish.is_raw(), &prepared.device)
            && device.backing.is_some()
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
                let device = BlockDevice::recorded(block, source)?;
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
        self.ensure_no_unrecorded_writer(publish)?;
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
}

impl Publish<'_> {
    fn is_raw(&self) -> bool {
        self.request.capability.access_type == AccessType::Block
    }

    fn differs(&self, difference: &str) -> MountError {
        let volume = describe_volume(&self.request.key);
        MountError::already_exists(format!("{volume} at {}", self.path.text()), difference)
    }
}

/// Creates and opens the target: a directory, or a file for a raw block volume (CSI specification, NodePublishVolumeRequest.target_path). An existing
/// one is accepted, because some clients create it.
fn create_target(location: &Location, is_raw: bool) -> Result<OwnedFd, MountError> {
    let (parent, name) = (&location.parent, &location.name);
    let created = if is_raw {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        openat(parent, name, flags | OFlags::CLOEXEC, TARGET_FILE_MODE).map(drop)
    } else {
        mkdirat(parent, name, TARGET_MODE)
    };
    match created {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(location.failed("create", errno)),
    }
    let difference = match (place(location)?, is_raw) {
        (Place::Directory(directory), false) => {
            refuse_content(&directory, location)?;
            return Ok(directory);
        }
        (Place::File(file, observation), true) if observation.size_bytes == 0 => return Ok(file),
        (Place::File(..), true) => "it is a file with content; move it away first",
        (Place::File(..), false) => "it is a file, and the volume is a file system",
        (Place::Directory(_), true) => "it is a directory, and the volume is a block device",
        (Place::Missing | Place::Taken(_), _) => {
            return Err(kernel("open", &location.path, Errno::STALE));
        }
    };
    Err(location.occupied(difference))
}

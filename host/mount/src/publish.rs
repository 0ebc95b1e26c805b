//! NodePublishVolume: a staged volume, or the plan of one without a stage step, at a target that is made here.
//!
//! The order is that of `stage`. A read-only publish is read-only before it is attached, whatever the stage is, and nobody else's mount is
//! touched for it.

use crate::block::loop_device::{self, Tag};
use crate::block::{BlockDevice, BlockRecord};
use crate::executor::{attach, clone_mount, dress};
use crate::failure::kernel;
use crate::group;
use crate::journal::entry::{
    Entry, Progress, RecordedCapability, StageRecord, TargetRecord, recorded_plan,
};
use crate::node::{Node, Place, place, volume_words};
use crate::observe::{Identity, SeenMount};
use crate::plan::options::MountFlags;
use crate::plan::{self, CheckedPlan, CheckedSource};
use crate::roots::{CheckedPath, Location};
use crate::source::{self, Preparation, Prepared, PreparedMount};
use rustix::fs::{Dir, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::{MountError, PublishVolume};
use wasmount_core::plan::Source;
use wasmount_core::volume::{AccessMode, AccessType};

/// Mode of a target directory: kubelet's own for the directories above it. The mount hides it.
const TARGET_MODE: Mode = Mode::from_raw_mode(0o750);
/// Mode of a target file. The device node hides it.
const TARGET_FILE_MODE: Mode = Mode::from_raw_mode(0o600);

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
#[derive(Clone, Copy)]
struct Shown {
    identity: Identity,
    /// A device for this target alone.
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
                if record.progress == Progress::Settled && record.identity == mount.identity =>
            {
                publish.same_as(record, mount)?;
                return self.publish_again(&publish, record, mount);
            }
            (Some(record), _) if record.progress != Progress::Settled => {
                drop(seen);
                self.undo_target(&request.key, path.text())?;
            }
            (None, Place::Taken(mount)) if publish.is_there(mount)? => {
                // Published just so, and the journal was lost.
                let shown = Shown {
                    identity: mount.identity,
                    block: None,
                };
                return self.record_target(&publish, shown, Progress::Settled);
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
            identity: record.identity,
            block: record.block,
        };
        self.record_target(publish, shown, Progress::Settled)
    }

    fn publish_anew(&self, publish: &Publish<'_>, location: &Location) -> Result<(), MountError> {
        let prepared = self.prepare_target(publish)?;
        let shown = Shown {
            identity: prepared.identity,
            block: prepared.device.as_ref().map(BlockDevice::record),
        };
        self.record_target(publish, shown, Progress::Coming)?;
        let done = self
            .show(publish, &prepared, location)
            .and_then(|()| self.record_target(publish, shown, Progress::Settled));
        // The descriptor would keep the mount busy while it is undone.
        drop(prepared);
        let path = publish.path.text();
        if done.is_err()
            && let Err(error) = self.undo_target(&publish.request.key, path)
        {
            tracing::warn!(path, %error, "a publish that failed could not be undone; the next call or start tries again");
        }
        done
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

    fn prepare_target(&self, publish: &Publish<'_>) -> Result<PreparedMount, MountError> {
        let request = publish.request;
        let tag = Tag::target(&request.key, publish.path.text());
        match &publish.what {
            Published::Plan(plan) => {
                let source = request.plan.as_ref().map(|plan| recorded_plan(plan).source);
                let Some(source) = &source else {
                    return Err(publish.otherwise("it has no plan"));
                };
                let preparation = Preparation {
                    node: self,
                    key: &request.key,
                    source,
                    secret_options: &request.secret_options,
                    tag: &tag,
                };
                match preparation.prepare(plan)? {
                    Prepared::Mount(mount) => Ok(mount),
                    Prepared::Device(device) => {
                        PreparedMount::showing(device, &plan.source, publish.flags, &tag)
                    }
                }
            }
            Published::Device(block, source) => {
                let device =
                    BlockDevice::recorded(block, source)?.ok_or_else(|| MountError::NotStaged {
                        path: "its staging path: the device is gone".to_owned(),
                    })?;
                if publish.flags.is_read_only() && !device.is_read_only {
                    PreparedMount::showing(device, source, publish.flags, &tag)
                } else {
                    PreparedMount::of_device(&device, publish.flags)
                }
            }
            Published::Stage(stage) => {
                let what = volume_words(&request.key);
                let mount = clone_mount(&stage.root, &what)?;
                dress(&mount, publish.flags, &what)?;
                if let Some(group) = publish.group {
                    group::apply(&mount, group, publish.flags.is_read_only())?;
                }
                PreparedMount::of(mount)
            }
        }
    }

    fn checked<'r>(&self, request: &'r PublishVolume) -> Result<Publish<'r>, MountError> {
        let path = self.roots.check(&request.target_path)?;
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
        let is_staged_read_only = match &publish.what {
            Published::Stage(mount) => mount.is_read_only()?,
            Published::Device(..) => entry.stage.is_some_and(|stage| stage.read_only),
            Published::Plan(_) => false,
        };
        if is_staged_read_only && !publish.flags.is_read_only() {
            return Err(publish.otherwise("the volume is staged read-only"));
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
            return Err(MountError::OtherwiseThere {
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
                plan: request.plan.as_ref().map(recorded_plan),
                identity: shown.identity,
                block: shown.block,
                read_only: publish.flags.is_read_only(),
            };
            entry.targets.insert(publish.path.text().to_owned(), record);
            Ok(())
        })
    }

    /// Other targets that are recorded as settled and are gone: they are in nobody's way. One that cannot be looked at counts as there.
    fn outdated_targets(&self, publish: &Publish<'_>) -> BTreeSet<String> {
        let entry = self.journal.entry(&publish.request.key);
        entry
            .targets
            .iter()
            .filter(|(path, target)| {
                is_single(publish, target)
                    && target.progress == Progress::Settled
                    && self
                        .still_mounted(path, target.identity)
                        .is_ok_and(|mounted| !mounted)
            })
            .map(|(path, _)| path.clone())
            .collect()
    }
}

impl Publish<'_> {
    fn is_raw(&self) -> bool {
        self.request.capability.access_type == AccessType::Block
    }

    /// Whether a mount without a record shows what is to be published, in the way that is wanted.
    fn is_there(&self, mount: &SeenMount) -> Result<bool, MountError> {
        let is_same = match &self.what {
            Published::Stage(stage) => stage.identity == mount.identity,
            // A read-only one is a device of its own, made anew.
            Published::Device(..) if self.flags.is_read_only() => false,
            Published::Device(block, source) => match BlockDevice::recorded(block, source)? {
                Some(device) => device.node()? == mount.identity,
                None => false,
            },
            Published::Plan(plan) => source::is_shown(&plan.source, mount)?,
        };
        Ok(is_same && self.flags.agree_with(mount.flags()?))
    }

    /// The second call for a target: the same is success, anything else is refused.
    fn same_as(&self, record: &TargetRecord, mount: &SeenMount) -> Result<(), MountError> {
        let same_source = match &self.what {
            Published::Stage(stage) => record.identity == stage.identity,
            // The stage is what it was, and the target shows the very node that was recorded.
            Published::Device(..) => true,
            // Files are replaced as a whole.
            Published::Plan(CheckedPlan {
                source: CheckedSource::Files(_),
                ..
            }) => record
                .plan
                .as_ref()
                .is_some_and(|plan| matches!(plan.source, Source::Files { .. })),
            Published::Plan(_) => {
                let wanted = self.request.plan.as_ref().map(recorded_plan);
                record.plan.as_ref().map(|plan| &plan.source)
                    == wanted.as_ref().map(|plan| &plan.source)
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
        MountError::OtherwiseThere {
            what: format!(
                "{} at {}",
                volume_words(&self.request.key),
                self.path.text()
            ),
            difference: difference.to_owned(),
        }
    }
}

/// Makes the target and opens it. One that is there already is as good: some clients make it.
fn make_target(location: &Location) -> Result<OwnedFd, MountError> {
    match mkdirat(&location.parent, &location.name, TARGET_MODE) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(location.failed("mkdir", errno)),
    }
    match place(location)? {
        Place::Directory(directory) => {
            refuse_content(&directory, location)?;
            Ok(directory)
        }
        Place::File(..) => Err(location.occupied("it is a file, and the volume is a file system")),
        Place::Missing | Place::Taken(_) => Err(kernel("open", &location.path, Errno::STALE)),
    }
}

/// The same for a raw block volume, whose target is a file (CSI specification, NodePublishVolumeRequest.target_path).
fn make_target_file(location: &Location) -> Result<OwnedFd, MountError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&location.parent, &location.name, flags, TARGET_FILE_MODE) {
        Ok(_) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(location.failed("create", errno)),
    }
    match place(location)? {
        Place::File(file, observation) if observation.size_bytes == 0 => Ok(file),
        Place::File(..) => Err(location.occupied("it is a file with content; move it away first")),
        Place::Directory(_) => {
            Err(location.occupied("it is a directory, and the volume is a block device"))
        }
        Place::Missing | Place::Taken(_) => Err(kernel("open", &location.path, Errno::STALE)),
    }
}

/// Refuses a target that is not empty. The mount would hide what is in it, and at the unpublish it would keep the target from being removed.
fn refuse_content(target: &OwnedFd, location: &Location) -> Result<(), MountError> {
    let failed = |errno| location.failed("read", errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(target, c".", flags, Mode::empty()).map_err(failed)?;
    for entry in Dir::new(opened).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            return Err(MountError::OtherwiseThere {
                what: location.path.clone(),
                difference:
                    "it is not empty, and the volume would hide its content; move that away first"
                        .to_owned(),
            });
        }
    }
    Ok(())
}

fn is_single(publish: &Publish<'_>, other: &TargetRecord) -> bool {
    let single = AccessMode::SingleNodeSingleWriter;
    publish.request.capability.access_mode == single || other.capability.shape.access_mode == single
}

/// The target that a publish conflicts with (CSI specification, NodePublishVolume, the table of second calls).
fn single_writer_conflict(
    publish: &Publish<'_>,
    entry: &Entry,
    outdated: &BTreeSet<String>,
) -> Option<String> {
    entry
        .targets
        .iter()
        .find(|(path, target)| {
            *path != publish.path.text() && is_single(publish, target) && !outdated.contains(*path)
        })
        .map(|(path, _)| format!("it is published at {path}"))
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

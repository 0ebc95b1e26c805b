//! NodePublishVolume: a staged volume, or the plan of one without a stage step, at a target that is made here.
//!
//! The order is that of `stage`. A read-only publish is read-only before it is attached, whatever the stage is, and nobody else's mount is
//! touched for it.

use crate::executor::{attach, clone_mount, dress};
use crate::failure::kernel;
use crate::journal::entry::{
    Entry, Progress, RecordedCapability, StageRecord, TargetRecord, recorded_plan,
};
use crate::node::{Node, Place, place, volume_words};
use crate::observe::{Identity, SeenMount};
use crate::plan::options::MountFlags;
use crate::plan::{self, CheckedSource};
use crate::roots::{CheckedPath, Location};
use crate::source::{self, Prepared};
use rustix::fs::{Dir, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::{MountError, PublishVolume};
use wasmount_core::volume::AccessMode;

/// Mode of a target directory: kubelet's own for the directories above it. The mount hides it.
const TARGET_MODE: Mode = Mode::from_raw_mode(0o750);

/// What is to be published.
enum Published {
    /// The mount at the staging path.
    Stage(SeenMount),
    /// The source of a plan of its own.
    Plan(CheckedSource),
}

/// A publish whose request was checked.
struct Publish<'r> {
    request: &'r PublishVolume,
    path: CheckedPath,
    what: Published,
    flags: MountFlags,
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
                return publish.same_as(record.clone(), mount);
            }
            (Some(record), _) if record.progress != Progress::Settled => {
                drop(seen);
                self.undo_target(&request.key, path.text())?;
            }
            (None, Place::Taken(mount)) if publish.is_there(mount)? => {
                // Published just so, and the journal was lost.
                return self.record_target(&publish, mount.identity, Progress::Settled);
            }
            _ => drop(seen),
        }
        if let Place::Taken(_) = place(&location)? {
            return Err(publish.otherwise("something else is mounted there; unmount it first"));
        }
        self.publish_anew(&publish, &location)
    }

    fn publish_anew(&self, publish: &Publish<'_>, location: &Location) -> Result<(), MountError> {
        let prepared = publish.prepare()?;
        self.record_target(publish, prepared.identity, Progress::Coming)?;
        let done = make_target(location)
            .and_then(|target| attach(&prepared, &target, &publish.path, publish.flags))
            .and_then(|()| self.record_target(publish, prepared.identity, Progress::Settled));
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

    fn checked<'r>(&self, request: &'r PublishVolume) -> Result<Publish<'r>, MountError> {
        let path = self.roots.check(&request.target_path)?;
        let grants = self.grants_of(&request.key.driver);
        let entry = self.journal.entry(&request.key);
        let (what, flags) = if let Some(plan) = &request.plan {
            let checked = plan::check(plan, &request.capability, &grants)?;
            (Published::Plan(checked.source), checked.flags)
        } else {
            let (mount, stage) = self.stage_to_publish(request, &entry)?;
            let checked = plan::check(&stage.plan, &request.capability, &grants)?;
            (Published::Stage(mount), checked.flags)
        };
        let publish = Publish {
            request,
            path,
            what,
            flags: flags.read_only(request.readonly),
        };
        if entry.is_staged_at(publish.path.text()) {
            return Err(publish.otherwise("the target is the staging path; name another"));
        }
        if let Published::Stage(mount) = &publish.what
            && mount.is_read_only()?
            && !publish.flags.is_read_only()
        {
            return Err(publish.otherwise("the volume is staged read-only"));
        }
        Ok(publish)
    }

    fn stage_to_publish(
        &self,
        request: &PublishVolume,
        entry: &Entry,
    ) -> Result<(SeenMount, StageRecord), MountError> {
        let Some(staging_path) = &request.staging_path else {
            return Err(MountError::NotStaged {
                path: "an empty staging_target_path".to_owned(),
            });
        };
        let path = self.roots.check(staging_path)?;
        let not_staged = || MountError::NotStaged {
            path: path.text().to_owned(),
        };
        let stage = entry.settled_stage().ok_or_else(not_staged)?;
        if stage.path != path.text() {
            return Err(not_staged());
        }
        let mount = self
            .mounted(&path, stage.identity)?
            .ok_or_else(not_staged)?;
        Ok((mount, stage.clone()))
    }

    fn record_target(
        &self,
        publish: &Publish<'_>,
        identity: Identity,
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
                identity,
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
    fn prepare(&self) -> Result<Prepared, MountError> {
        match &self.what {
            Published::Plan(source) => source::prepare(source, self.flags),
            Published::Stage(stage) => {
                let what = volume_words(&self.request.key);
                let mount = clone_mount(&stage.root, &what)?;
                dress(&mount, self.flags, &what)?;
                Ok(Prepared {
                    mount,
                    identity: stage.identity,
                })
            }
        }
    }

    /// Whether a mount without a record shows what is to be published, in the way that is wanted.
    fn is_there(&self, mount: &SeenMount) -> Result<bool, MountError> {
        let identity = match &self.what {
            Published::Stage(stage) => Some(stage.identity),
            Published::Plan(source) => source::identity(source)?,
        };
        Ok(identity == Some(mount.identity) && self.flags.agree_with(mount.flags()?))
    }

    /// The second call for a target: the same is success, anything else is refused.
    fn same_as(&self, record: TargetRecord, mount: &SeenMount) -> Result<(), MountError> {
        let same_source = match &self.what {
            Published::Stage(stage) => record.identity == stage.identity,
            Published::Plan(_) => {
                let wanted = self.request.plan.as_ref().map(recorded_plan);
                record.plan.map(|plan| plan.source) == wanted.map(|plan| plan.source)
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
        Place::Free(directory) => {
            refuse_content(&directory, location)?;
            Ok(directory)
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

fn no_parent(path: &CheckedPath) -> MountError {
    MountError::Precondition {
        path: path.text().to_owned(),
        what: "the client makes the directory above the target before it calls NodePublishVolume"
            .to_owned(),
    }
}

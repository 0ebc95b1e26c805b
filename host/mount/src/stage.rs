//! NodeStageVolume: the source of a plan, mounted at the staging path that the client made.
//!
//! Order: everything is checked; the mount is made, detached; the journal says that it is coming; it is attached and verified; the journal
//! says that it is there. Killed anywhere in between, recovery finds either nothing or a record that says what to undo.

use crate::executor::attach;
use crate::journal::entry::{Progress, RecordedCapability, StageRecord, recorded_plan};
use crate::node::{Node, Place, place, volume_words};
use crate::observe::Identity;
use crate::plan::{self, CheckedPlan};
use crate::roots::CheckedPath;
use crate::source::{self, prepare};
use std::collections::BTreeMap;
use wasmount_core::mounter::{MountError, StageVolume, Staged, StagedQuery, VolumeKey};
use wasmount_core::volume::VolumeCapability;

impl Node {
    /// Whether journal and kernel agree that the volume is staged.
    pub(crate) fn staged(&self, query: &StagedQuery) -> Result<Staged, MountError> {
        let path = self.roots.check(&query.staging_path)?;
        let found = self.stage_in_force(&query.key, &path)?;
        let Some(found) = found else {
            return Ok(Staged::No);
        };
        same_capability(&query.key, &found, &query.capability)?;
        Ok(Staged::AsWanted)
    }

    /// Stages.
    pub(crate) fn stage(&self, request: &StageVolume) -> Result<(), MountError> {
        let path = self.roots.check(&request.staging_path)?;
        let grants = self.grants_of(&request.key.driver);
        let checked = plan::check(&request.plan, &request.capability, &grants)?;
        if let Some(found) = self.stage_in_force(&request.key, &path)? {
            same_capability(&request.key, &found, &request.capability)?;
            return same_plan(&request.key, &found, request);
        }
        self.undo_stage(&request.key)?;

        let location = path.locate()?.ok_or_else(|| no_directory(&path))?;
        let directory = match place(&location)? {
            Place::Free(directory) => directory,
            Place::Missing => return Err(no_directory(&path)),
            Place::Taken(mount) => {
                let same = source::identity(&checked.source)? == Some(mount.identity);
                if !same || !checked.flags.agree_with(mount.flags()?) {
                    return Err(MountError::OtherwiseThere {
                        what: format!("a mount at {}", path.text()),
                        difference: "it is not this volume's; unmount it first".to_owned(),
                    });
                }
                // Staged just so, and the journal was lost.
                return self.record_stage(
                    request,
                    &path,
                    &checked,
                    mount.identity,
                    Progress::Settled,
                );
            }
        };
        let prepared = prepare(&checked.source, checked.flags)?;
        self.record_stage(
            request,
            &path,
            &checked,
            prepared.identity,
            Progress::Coming,
        )?;
        let done = attach(&prepared, &directory, &path, checked.flags).and_then(|()| {
            self.record_stage(
                request,
                &path,
                &checked,
                prepared.identity,
                Progress::Settled,
            )
        });
        // The descriptors would keep the mount busy while it is undone.
        drop((prepared, directory));
        if done.is_err()
            && let Err(error) = self.undo_stage(&request.key)
        {
            tracing::warn!(path = path.text(), %error, "a stage that failed could not be undone; the next call or start tries again");
        }
        done
    }

    /// The notes of the plan that the volume was staged with.
    pub(crate) fn notes(&self, key: &VolumeKey) -> BTreeMap<String, String> {
        self.journal
            .entry(key)
            .stage
            .map(|stage| stage.plan.notes)
            .unwrap_or_default()
    }

    /// The stage record, if it is settled and the kernel agrees. Staged at another path: an error.
    fn stage_in_force(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<Option<StageRecord>, MountError> {
        let entry = self.journal.entry(key);
        let Some(stage) = entry.settled_stage() else {
            return Ok(None);
        };
        let staged_at = self.roots.check_text(&stage.path)?;
        let Some(mount) = self.mounted(&staged_at, stage.identity)? else {
            return Ok(None);
        };
        if staged_at != *path {
            return Err(MountError::OtherwiseThere {
                what: volume_words(key),
                difference: format!("it is staged at {}", stage.path),
            });
        }
        Ok((mount.is_read_only()? == stage.read_only).then(|| stage.clone()))
    }

    fn record_stage(
        &self,
        request: &StageVolume,
        path: &CheckedPath,
        checked: &CheckedPlan,
        identity: Identity,
        progress: Progress,
    ) -> Result<(), MountError> {
        self.journal.update(&request.key, |entry| {
            entry.stage = Some(StageRecord {
                progress,
                path: path.text().to_owned(),
                capability: RecordedCapability::of(&request.capability),
                plan: recorded_plan(&request.plan),
                identity,
                read_only: checked.flags.is_read_only(),
            });
            Ok(())
        })
    }
}

fn same_capability(
    key: &VolumeKey,
    found: &StageRecord,
    wanted: &VolumeCapability,
) -> Result<(), MountError> {
    if found.capability == RecordedCapability::of(wanted) {
        return Ok(());
    }
    Err(MountError::OtherwiseThere {
        what: format!("{} at {}", volume_words(key), found.path),
        difference: "it is staged with another capability".to_owned(),
    })
}

fn same_plan(
    key: &VolumeKey,
    found: &StageRecord,
    request: &StageVolume,
) -> Result<(), MountError> {
    if found.plan.source == recorded_plan(&request.plan).source {
        return Ok(());
    }
    Err(MountError::OtherwiseThere {
        what: format!("{} at {}", volume_words(key), found.path),
        difference: "it is staged from another source".to_owned(),
    })
}

fn no_directory(path: &CheckedPath) -> MountError {
    MountError::Precondition {
        path: path.text().to_owned(),
        what: "the client makes the staging directory before it calls NodeStageVolume".to_owned(),
    }
}

//! What a killed host left: which volumes of a driver are unsettled, and bringing each to a whole state.
//!
//! A mount that was coming is undone (the client will ask again), one that was going is finished, a record whose mount is gone is dropped.
//! What is there is read from the mount table, so storage that hangs is not touched and cannot keep a host from starting. It must not know
//! claims: the caller holds the volume's.

use crate::failure::kernel;
use crate::journal::entry::{Entry, Progress, StageRecord};
use crate::mountinfo;
use crate::node::Node;
use crate::observe::mount_id;
use crate::roots::{CheckedPath, open_root};
use std::collections::HashSet;
use std::path::PathBuf;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::{DriverName, VolumeId};

/// Every path at which something is mounted.
struct MountPoints(HashSet<PathBuf>);

impl Node {
    /// Volumes with work that is half done, or with records of mounts that are gone.
    pub(crate) fn unsettled(&self, driver: &DriverName) -> Result<Vec<VolumeId>, MountError> {
        let table = MountPoints::read()?;
        let unsettled = self
            .journal
            .of_driver(driver)
            .into_iter()
            .filter(|entry| self.is_unsettled(entry, &table))
            .map(|entry| entry.key.volume)
            .collect();
        Ok(unsettled)
    }

    /// Brings one volume to a whole state. One mount that cannot be mended does not keep the others from it.
    pub(crate) fn recover(&self, key: &VolumeKey) -> Result<(), MountError> {
        let mut outcome = self.undo_stage(key);
        let entry = self.journal.entry(key);
        for path in entry.targets.keys() {
            let undone = self.undo_target(key, path);
            outcome = outcome.and(undone);
        }
        let table = MountPoints::read()?;
        let gone = |path: &str, progress| {
            progress == Progress::Settled
                && self
                    .roots
                    .check_text(path)
                    .and_then(|path| table.has(&path))
                    .is_ok_and(|there| !there)
        };
        let dropped = self.journal.update(key, |entry| {
            let is_stage_gone = entry.stage.as_ref().is_some_and(|stage| match stage.raw() {
                Some(_) => !self.has_raw_device(key, stage),
                None => gone(&stage.path, stage.progress),
            });
            if is_stage_gone {
                entry.stage = None;
            }
            entry
                .targets
                .retain(|path, target| !gone(path, target.progress));
            Ok(())
        });
        outcome.and(dropped)
    }

    fn is_unsettled(&self, entry: &Entry, table: &MountPoints) -> bool {
        let is_raw_unsettled = |stage: &StageRecord| {
            stage.raw().is_some()
                && (stage.progress != Progress::Settled || !self.has_raw_device(&entry.key, stage))
        };
        entry.stage.as_ref().is_some_and(is_raw_unsettled) || self.has_unsettled_mount(entry, table)
    }

    /// Whether the device of a raw block volume is there. One that cannot be looked at counts as there: its users may have it open.
    pub(crate) fn has_raw_device(&self, key: &VolumeKey, stage: &StageRecord) -> bool {
        self.has_device(key, stage).unwrap_or_else(|error| {
            tracing::warn!(%key.volume, %error, "the device of a raw block volume cannot be looked at; its record stays");
            true
        })
    }

    fn has_unsettled_mount(&self, entry: &Entry, table: &MountPoints) -> bool {
        entry.mounts().any(|(path, progress, _)| {
            let there = self
                .roots
                .check_text(path)
                .and_then(|path| table.has(&path));
            match there {
                Ok(there) => progress != Progress::Settled || !there,
                Err(error) => {
                    tracing::warn!(volume = %entry.key.volume, %error, "a recorded mount is left alone; name its root again to have it cleaned up");
                    false
                }
            }
        })
    }

    /// One sentence for each root that is not on a shared mount: what is mounted below it here would not be seen by kubelet.
    pub(crate) fn unshared_roots(&self) -> Result<Vec<String>, MountError> {
        let table = mountinfo::read()?;
        let mut sentences = Vec::new();
        for root in self.roots.directories() {
            let Some(directory) = open_root(root)? else {
                sentences.push(format!("path root {} does not exist", root.display()));
                continue;
            };
            let mount_id =
                mount_id(&directory).map_err(|errno| kernel("statx", root.display(), errno))?;
            let is_shared = table
                .iter()
                .any(|line| line.mount_id == mount_id && line.is_shared);
            if !is_shared {
                sentences.push(format!(
                    "path root {} is not on a shared mount, so pods would not see the volumes; run `mount --make-rshared` on it, or mount it into the host's container with mountPropagation: Bidirectional",
                    root.display()
                ));
            }
        }
        Ok(sentences)
    }
}

impl MountPoints {
    fn read() -> Result<Self, MountError> {
        let table = mountinfo::read()?;
        Ok(Self(
            table.into_iter().map(|line| line.mount_point).collect(),
        ))
    }

    fn has(&self, path: &CheckedPath) -> Result<bool, MountError> {
        Ok(path
            .in_mount_table()?
            .is_some_and(|path| self.0.contains(&path)))
    }
}

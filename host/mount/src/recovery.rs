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
pub(crate) struct MountPoints(HashSet<PathBuf>);

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
        outcome.and(self.drop_what_is_gone(key))
    }

    /// Records of what a reboot, or somebody, took away.
    fn drop_what_is_gone(&self, key: &VolumeKey) -> Result<(), MountError> {
        let table = MountPoints::read()?;
        let is_gone = |path: &str| {
            let path = self.roots.check_text(path);
            path.and_then(|path| table.has(&path))
                .is_ok_and(|there| !there)
        };
        let entry = self.journal.entry(key);
        let targets = entry
            .targets
            .iter()
            .filter(|(path, target)| target.progress == Progress::Settled && is_gone(path));
        for (path, _) in targets {
            self.forget_target(key, path)?;
        }
        let is_stage_gone = entry
            .settled_stage()
            .is_some_and(|stage| match stage.raw() {
                Some(_) => !self.has_raw_device(key, stage),
                None => is_gone(&stage.path),
            });
        if !is_stage_gone {
            return Ok(());
        }
        self.journal.update(key, |entry| {
            entry.stage = None;
            Ok(())
        })
    }

    fn is_unsettled(&self, entry: &Entry, table: &MountPoints) -> bool {
        let stage = entry.stage.iter().map(|stage| {
            let raw = stage.raw().map(|_| stage);
            (stage.path.as_str(), stage.progress, raw)
        });
        let targets = entry.targets.iter();
        let targets = targets.map(|(path, target)| (path.as_str(), target.progress, None));
        stage.chain(targets).any(|(path, progress, raw)| {
            let there = self
                .roots
                .check_text(path)
                .and_then(|path| match raw {
                    Some(stage) => Ok(self.has_raw_device(&entry.key, stage)),
                    None => table.has(&path),
                });
            match there {
                Ok(there) => progress != Progress::Settled || !there,
                Err(error) => {
                    tracing::warn!(volume = %entry.key.volume, %error, "a recorded mount is left alone; name its root again to have it cleaned up");
                    false
                }
            }
        })
    }

    /// Whether the device of a raw block volume is there. One that cannot be looked at counts as there: its users may have it open.
    pub(crate) fn has_raw_device(&self, key: &VolumeKey, stage: &StageRecord) -> bool {
        self.has_device(key, stage).unwrap_or_else(|error| {
            tracing::warn!(%key.volume, %error, "the device of a raw block volume cannot be looked at; its record stays");
            true
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
    pub(crate) fn read() -> Result<Self, MountError> {
        let table = mountinfo::read()?;
        Ok(Self(
            table.into_iter().map(|line| line.mount_point).collect(),
        ))
    }

    pub(crate) fn has(&self, path: &CheckedPath) -> Result<bool, MountError> {
        Ok(path
            .in_mount_table()?
            .is_some_and(|path| self.0.contains(&path)))
    }
}

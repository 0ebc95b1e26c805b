//! Compares the journal with the mount table: what a killed host left and how it is finished or undone, and which volumes are in use.
//!
//! A mount that was being made is undone (the client will call again), one that was being removed is finished, and a record whose mount is gone is
//! dropped. Storage that hangs is not accessed, so it cannot prevent the start of a host. The caller holds the volume's claims.

use crate::failure::kernel;
use crate::journal::{Entry, Progress, Shows, VolumePath};
use crate::mountinfo;
use crate::node::Node;
use crate::observe::mount_id;
use crate::roots::open_root;
use std::collections::HashSet;
use std::path::PathBuf;
use wasmount_core::mounter::{MountError, VolumeInUse, VolumeKey};
use wasmount_core::names::{DriverName, VolumeId};

impl Node {
    /// Volumes with unfinished work, or with records of mounts that are gone.
    pub(crate) fn unsettled(&self, driver: &DriverName) -> Result<Vec<VolumeId>, MountError> {
        let table = mount_points()?;
        let mut entries = self.journal.of_driver(driver);
        entries.retain(|entry| self.is_unsettled(entry, &table));
        Ok(entries.into_iter().map(|entry| entry.key.volume).collect())
    }

    /// Recovers one volume. One mount that cannot be recovered does not prevent the recovery of the others.
    pub(crate) fn recover(&self, key: &VolumeKey) -> Result<(), MountError> {
        let undone = self.undo(key, |_| true);
        undone.and(self.drop_what_is_gone(key))
    }

    /// Drops records of mounts that a reboot or an administrator removed.
    fn drop_what_is_gone(&self, key: &VolumeKey) -> Result<(), MountError> {
        let table = mount_points()?;
        let entry = self.journal.entry(key);
        let is_gone = |at: &VolumePath<'_>| {
            at.progress == Progress::Settled
                && self.is_there(key, at, &table).is_ok_and(|there| !there)
        };
        // Targets are dropped first.
        for gone in entry.paths().rev().filter(is_gone) {
            if gone.is_stage {
                self.close_map(key, gone.path)?;
                self.detach(key, gone.plan, gone.path)?;
                self.journal.update(key, |entry| {
                    entry.stage = None;
                    Ok(())
                })?;
            } else {
                self.forget_target(key, gone.path)?;
            }
        }
        Ok(())
    }

    fn is_unsettled(&self, entry: &Entry, table: &HashSet<PathBuf>) -> bool {
        entry.paths().any(|at| match self.is_there(&entry.key, &at, table) {
            Ok(there) => at.progress != Progress::Settled || !there,
            Err(error) => {
                tracing::warn!(volume = %entry.key.volume, %error, "a recorded mount below no path root is kept; configure its path root again to have it cleaned up");
                false
            }
        })
    }

    /// Whether the mount table contains the mount of a record; for a staged raw block volume, whether its device exists.
    fn is_there(
        &self,
        key: &VolumeKey,
        at: &VolumePath<'_>,
        table: &HashSet<PathBuf>,
    ) -> Result<bool, MountError> {
        let path = self.roots.check_text(at.path)?;
        match at.shows() {
            Some(Shows::Device(_)) => Ok(self.has_raw_device(key, at)),
            _ => Ok(path
                .in_mount_table()?
                .is_some_and(|path| table.contains(&path))),
        }
    }

    /// Whether the device of a raw block volume exists. One that cannot be checked counts as existing: its users may have it open.
    pub(crate) fn has_raw_device(&self, key: &VolumeKey, at: &VolumePath<'_>) -> bool {
        self.has_device(key, at).unwrap_or_else(|error| {
            tracing::warn!(%key.volume, %error, "the device of a raw block volume cannot be looked at; its record stays");
            true
        })
    }

    /// The volumes of a driver that are in use on this node, sorted by id. A volume whose record was lost with the run directory is not included.
    pub(crate) fn volumes_in_use(
        &self,
        driver: &DriverName,
    ) -> Result<Vec<VolumeInUse>, MountError> {
        let table = mount_points()?;
        let mut volumes = Vec::new();
        for entry in self.journal.of_driver(driver) {
            // A mount that is being made or removed may exist, whatever the table says; so may one whose path cannot be checked.
            let in_use = entry.paths().filter(|at| {
                at.progress != Progress::Settled
                    || self.is_there(&entry.key, at, &table).unwrap_or(true)
            });
            let (staged, targets): (Vec<_>, Vec<_>) = in_use.partition(|at| at.is_stage);
            if !staged.is_empty() || !targets.is_empty() {
                volumes.push(VolumeInUse {
                    volume: entry.key.volume.clone(),
                    staging_path: staged.first().map(|at| at.path.to_owned()),
                    target_paths: targets.iter().map(|at| at.path.to_owned()).collect(),
                });
            }
        }
        Ok(volumes)
    }

    /// One message for each root that is not on a shared mount: kubelet would not see mounts below it.
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

/// All mount points.
fn mount_points() -> Result<HashSet<PathBuf>, MountError> {
    let table = mountinfo::read()?.into_iter();
    Ok(table.map(|line| line.mount_point).collect())
}

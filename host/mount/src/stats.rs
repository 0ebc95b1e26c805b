//! NodeGetVolumeStats: statistics of a volume, from the kernel.
//!
//! `statfs` accesses storage, every minute and for every volume. So it has a deadline, and the last good answer is kept for storage that does not
//! answer.

use crate::block::DeviceNumber;
use crate::encryption;
use crate::failure::{kernel, shown};
use crate::journal::{Entry, Shows};
use crate::node::{Node, describe_volume};
use crate::observe::SeenMount;
use crate::records::Record as _;
use crate::stats_cache::{ANSWER_WITHIN, RunningQuery};
use crate::threads;
use rustix::fs::{StatVfs, fstat, fstatvfs};
use std::sync::Arc;
use wasmount_core::mounter::{MountError, StatVolume, Usage, VolumeKey, VolumeStats};
use wasmount_core::names::DriverName;

impl Node {
    /// The recorded content of one of the volume's paths.
    pub(crate) fn recorded(&self, key: &VolumeKey, path: &str) -> Result<Shows, MountError> {
        let entry = self.journal.entry(key);
        if entry.is_empty() {
            return Err(not_here(key));
        }
        let at = entry.paths().find(|at| at.path == path);
        at.and_then(|at| at.shows())
            .ok_or_else(|| not_mounted(key, path))
    }

    /// The path by which the journal knows a mount: the path itself, or the target of the device that is shown there. Kubelet bind-mounts a raw block
    /// volume once more (`volumeDevices/<volume>/dev/<pod>`, kubernetes pkg/volume/csi/csi_block.go) and queries that path. This may access storage.
    pub(crate) fn recorded_path(&self, key: &VolumeKey, path: &str) -> String {
        let entry = self.journal.entry(key);
        let known = match may_be_bound(&entry, path) {
            true => self.shown_device(path).and_then(|it| target_of(&entry, it)),
            false => None,
        };
        known.unwrap_or(path).to_owned()
    }

    /// The block device whose node is at a path below a root.
    fn shown_device(&self, path: &str) -> Option<DeviceNumber> {
        let location = self.roots.check_text(path).ok()?.locate().ok()??;
        DeviceNumber::of_node(&fstat(location.open().ok()?).ok()?)
    }

    /// Runs a query of the storage at a path, with a deadline. `None`: the storage does not answer, or has not answered an earlier query, in which
    /// case another thread would only hang as well. It takes twice the deadline at most: once for a thread, once for the answer.
    pub(crate) async fn query_storage<T: Send + 'static>(
        &self,
        driver: &DriverName,
        path: &str,
        question: impl FnOnce() -> Result<T, MountError> + Send + 'static,
    ) -> Result<Option<T>, MountError> {
        if self.stats_cache.is_hung(path) {
            return Ok(None);
        }
        let lane = self.budgets.of(driver).stats;
        let permit = lane.permit(ANSWER_WITHIN).await?;
        // Starts here, so that the path counts as hung exactly when its deadline has passed.
        let query = RunningQuery::begin(&self.stats_cache, path);
        threads::query(permit, ANSWER_WITHIN, move || {
            let _query = query;
            question()
        })
        .await
    }

    /// Whether the storage of a mount is gone or does not answer. For a thread that may block.
    pub(crate) fn is_unanswered(&self, driver: &DriverName, path: &str, mount: SeenMount) -> bool {
        let check = self.query_storage(driver, path, move || Ok(mount.is_corrupted()));
        match tokio::runtime::Handle::current().block_on(check) {
            Ok(answer) => answer.unwrap_or(true),
            // The storage could not be queried, so nothing is known: a mount that is in use must not be taken from its users for that.
            Err(_) => false,
        }
    }

    fn query_stats(
        &self,
        key: &VolumeKey,
        path: &str,
        recorded: Shows,
    ) -> Result<VolumeStats, MountError> {
        let failed = |operation: &str, errno| kernel(operation, path, errno);
        let mounted = |identity| {
            let mount = self.mounted(path, identity)?;
            mount.ok_or_else(|| not_mounted(key, path))
        };
        match recorded {
            Shows::Mount(identity) => fstatvfs(&mounted(identity)?.root)
                .map(|answer| figures(&answer))
                .map_err(|errno| failed("statfs", errno)),
            Shows::Node(identity) => {
                let node = mounted(identity)?.root;
                let status = fstat(&node).map_err(|errno| failed("stat", errno))?;
                DeviceNumber::of_raw(status.st_rdev).size_bytes().map(whole)
            }
            Shows::Device(block) => encryption::shown(block.number).size_bytes().map(whole),
        }
    }
}

/// Queries the usage of a volume. If storage does not answer, the last answer is returned.
pub(crate) async fn stats(
    node: &Arc<Node>,
    request: StatVolume,
) -> Result<VolumeStats, MountError> {
    let key = request.key;
    let path = recorded_path(node, &key, request.volume_path.as_str()).await?;
    let recorded = node.recorded(&key, &path)?;
    let question = {
        let (node, path, key) = (node.clone(), path.clone(), key.clone());
        move || {
            let stats = node.query_stats(&key, &path, recorded)?;
            // Stored here, so that a late answer is available to the next call.
            node.stats_cache.keep(path, stats);
            Ok(stats)
        }
    };
    match node.query_storage(&key.driver, &path, question).await {
        Ok(Some(stats)) => Ok(stats),
        Ok(None) | Err(MountError::OutOfThreads { .. }) => {
            node.stats_cache.kept(&path).ok_or_else(|| {
                MountError::hung(
                    format!("{} at {path}", describe_volume(&key)),
                    unanswered_text(),
                )
            })
        }
        Err(error) => Err(error),
    }
}

/// The same for a caller that must not block: on a thread for statistics, with their deadline.
pub(crate) async fn recorded_path(
    node: &Arc<Node>,
    key: &VolumeKey,
    path: &str,
) -> Result<String, MountError> {
    if !may_be_bound(&node.journal.entry(key), path) {
        return Ok(path.to_owned());
    }
    let question = {
        let (node, key, path) = (node.clone(), key.clone(), path.to_owned());
        move || Ok(node.recorded_path(&key, &path))
    };
    let answer = node.query_storage(&key.driver, path, question).await?;
    Ok(answer.unwrap_or_else(|| path.to_owned()))
}

fn may_be_bound(entry: &Entry, path: &str) -> bool {
    !entry.is_at(path) && entry.targets.values().any(|it| it.capability.is_raw())
}

fn target_of(entry: &Entry, device: DeviceNumber) -> Option<&str> {
    let staged = entry.stage.as_ref().and_then(|stage| stage.block);
    let shows = |block: Option<_>| {
        block
            .or(staged)
            .is_some_and(|it| encryption::shown(it.number) == device)
    };
    let mut targets = entry.targets.iter();
    let target = targets.find(|(_, target)| target.capability.is_raw() && shows(target.block));
    target.map(|(path, _)| path.as_str())
}

/// Message that storage does not answer, with advice.
pub(crate) fn unanswered_text() -> String {
    format!(
        "its storage has not answered for {} s; look at the server or disk behind it",
        ANSWER_WITHIN.as_secs()
    )
}

fn figures(answer: &StatVfs) -> VolumeStats {
    let usage = |unit: u64, total: u64, free: u64, available: u64| Usage {
        total: total.saturating_mul(unit),
        used: Some(total.saturating_sub(free).saturating_mul(unit)),
        available: Some(available.saturating_mul(unit)),
    };
    VolumeStats {
        bytes: usage(
            answer.f_frsize,
            answer.f_blocks,
            answer.f_bfree,
            answer.f_bavail,
        ),
        // btrfs and others report no count.
        inodes: (answer.f_files > 0)
            .then(|| usage(1, answer.f_files, answer.f_ffree, answer.f_favail)),
    }
}

/// For a raw block volume only the size is known: the host does not interpret its content.
fn whole(size_bytes: u64) -> VolumeStats {
    VolumeStats {
        bytes: Usage {
            total: size_bytes,
            used: None,
            available: None,
        },
        inodes: None,
    }
}

pub(crate) fn not_mounted(key: &VolumeKey, path: &str) -> MountError {
    MountError::not_found(format!(
        "a mount of {} at {}",
        describe_volume(key),
        shown(path)
    ))
}

pub(crate) fn not_here(key: &VolumeKey) -> MountError {
    MountError::not_found(format!(
        "a stage or publish of {} on this node",
        describe_volume(key)
    ))
}

#[cfg(test)]
mod tests;

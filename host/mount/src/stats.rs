//! NodeGetVolumeStats: figures of a volume, from the kernel.
//!
//! It is apart because `statfs` is the one call that asks storage for an answer, every minute and for every volume: it has a deadline, and
//! the last good answer is kept for storage that does not give one. It must not know tear-down, but for telling it what hangs.

use crate::block::{BlockRecord, DeviceNumber};
use crate::failure::{kernel, shown};
use crate::node::{Node, volume_words};
use crate::observe::{Identity, SeenMount};
use crate::threads::Threads;
use rustix::fs::{StatVfs, fstat, fstatvfs};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wasmount_core::mounter::{MountError, StatVolume, Usage, VolumeKey, VolumeStats};
use wasmount_core::names::DriverName;

/// How long storage may take to answer. 2 s: kubelet gives NodeGetVolumeStats much more, local storage takes microseconds, and a server that
/// takes longer has a problem that should be seen.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long an answer stands in for one that does not come. 5 minutes: five of kubelet's rounds; older figures would hide the problem.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Last answers, and what is being asked. By path, which the journal gives to one volume only.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    kept: Mutex<HashMap<String, (Instant, VolumeStats)>>,
    /// Since when, of each that asks.
    asked: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
}

/// What a record says of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Recorded {
    /// A mounted volume, staged or published.
    Mount(Identity),
    /// A raw block volume that is published: its device's node is mounted.
    Node(Identity),
    /// A raw block volume that is staged: nothing is mounted.
    Device(BlockRecord),
}

/// Notes that a path is being asked, as long as it lives.
struct Asking {
    asked: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    path: String,
    since: Instant,
}

impl Figures {
    /// Whether storage at a path has been asked and has not answered in time.
    pub(crate) fn is_hung(&self, path: &str) -> bool {
        lock(&self.asked)
            .get(path)
            .is_some_and(|asked| asked.iter().any(|since| since.elapsed() >= ANSWER_WITHIN))
    }

    /// Drops the last answer: the mount is gone.
    pub(crate) fn forget(&self, path: &str) {
        lock(&self.kept).remove(path);
    }

    fn keep(&self, path: String, stats: VolumeStats) {
        lock(&self.kept).insert(path, (Instant::now(), stats));
    }

    fn kept(&self, path: &str) -> Option<VolumeStats> {
        lock(&self.kept)
            .get(path)
            .filter(|(since, _)| since.elapsed() < KEPT_FOR)
            .map(|(_, stats)| *stats)
    }
}

impl Asking {
    fn begin(figures: &Figures, path: &str) -> Self {
        let (path, since) = (path.to_owned(), Instant::now());
        lock(&figures.asked)
            .entry(path.clone())
            .or_default()
            .push(since);
        Self {
            asked: figures.asked.clone(),
            path,
            since,
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut asked = lock(&self.asked);
        let Some(others) = asked.get_mut(&self.path) else {
            return;
        };
        if let Some(own) = others.iter().position(|since| *since == self.since) {
            others.swap_remove(own);
        }
        if others.is_empty() {
            asked.remove(&self.path);
        }
    }
}

impl Node {
    /// What is recorded at one of the volume's paths. Only that is looked at: a client can name no other path here.
    pub(crate) fn recorded(&self, key: &VolumeKey, path: &str) -> Result<Recorded, MountError> {
        let entry = self.journal.entry(key);
        if entry.is_empty() {
            return Err(MountError::NotFound {
                what: format!("a stage or publish of {} on this node", volume_words(key)),
            });
        }
        if let Some(stage) = entry.stage.as_ref().filter(|stage| stage.path == path) {
            return Ok(match (stage.identity, stage.block) {
                (None, Some(block)) => Recorded::Device(block),
                (Some(identity), _) => Recorded::Mount(identity),
                (None, None) => return Err(not_mounted(key, path)),
            });
        }
        let target = entry.targets.get(path);
        match target.and_then(|target| Some((target.identity?, target.capability.is_raw()))) {
            Some((identity, true)) => Ok(Recorded::Node(identity)),
            Some((identity, false)) => Ok(Recorded::Mount(identity)),
            None => Err(not_mounted(key, path)),
        }
    }

    /// Whether the storage of a mount is gone or does not answer. Blocks for twice as long as storage may take, at most: once for a thread,
    /// once for the answer.
    pub(crate) fn is_unanswered(&self, driver: &DriverName, path: &str, mount: SeenMount) -> bool {
        let asking = Asking::begin(&self.figures, path);
        let asked = self
            .budgets
            .of(driver)
            .stats_within(ANSWER_WITHIN, move || {
                let _asking = asking;
                Ok(mount.is_corrupted())
            });
        match asked {
            Ok(answer) => answer.unwrap_or(true),
            // Nobody could ask, so nothing is known: a mount that is in use must not be taken from its users for that.
            Err(_) => false,
        }
    }

    fn ask(
        &self,
        key: &VolumeKey,
        path: &str,
        recorded: Recorded,
    ) -> Result<VolumeStats, MountError> {
        let failed = |operation: &str, errno| kernel(operation, path, errno);
        let mounted = |identity| {
            let checked = self.roots.check_text(path)?;
            self.mounted(&checked, identity)?
                .ok_or_else(|| not_mounted(key, path))
        };
        match recorded {
            Recorded::Mount(identity) => fstatvfs(&mounted(identity)?.root)
                .map(|answer| figures(&answer))
                .map_err(|errno| failed("statfs", errno)),
            Recorded::Node(identity) => {
                let node = mounted(identity)?.root;
                let status = fstat(&node).map_err(|errno| failed("stat", errno))?;
                DeviceNumber::of_raw(status.st_rdev).size_bytes().map(whole)
            }
            Recorded::Device(block) => block.number.size_bytes().map(whole),
        }
    }
}

/// Asks for the use of a volume, for as long as storage may take.
pub(crate) async fn stats(
    node: &Arc<Node>,
    threads: &Threads,
    request: StatVolume,
) -> Result<VolumeStats, MountError> {
    let path = request.volume_path.as_str().to_owned();
    let recorded = node.recorded(&request.key, &path)?;
    let hung = || MountError::Hung {
        what: format!("{} at {path}", volume_words(&request.key)),
        reason: format!(
            "its storage has not answered for {} s; look at the server or disk behind it",
            ANSWER_WITHIN.as_secs()
        ),
    };
    if node.figures.is_hung(&path) {
        // Another thread would only hang beside the first.
        return node.figures.kept(&path).ok_or_else(hung);
    }
    let job = {
        let (node, path, key) = (node.clone(), path.clone(), request.key.clone());
        // From now on, so that it counts as hung just when the deadline below has passed.
        let asking = Asking::begin(&node.figures, &path);
        move || {
            let _asking = asking;
            let stats = node.ask(&key, &path, recorded)?;
            node.figures.keep(path.clone(), stats);
            Ok(stats)
        }
    };
    let answer = tokio::time::timeout(ANSWER_WITHIN, threads.stats(ANSWER_WITHIN, job)).await;
    match answer {
        Ok(Err(MountError::OutOfThreads { .. })) | Err(_) => {
            node.figures.kept(&path).ok_or_else(hung)
        }
        Ok(answer) => answer,
    }
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
        // btrfs and others have no count.
        inodes: (answer.f_files > 0)
            .then(|| usage(1, answer.f_files, answer.f_ffree, answer.f_favail)),
    }
}

/// Of a raw block volume only the size is known: what its user does with it is not this host's to see.
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
    MountError::NotFound {
        what: format!("a mount of {} at {}", volume_words(key), shown(path)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one step, so what a panicking thread leaves is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

//! Running jobs and the client process that each belongs to.
//!
//! Claims are in the client's memory: a restarted client has lost them while its jobs continue here. Calls of one client process hold claims and
//! cannot conflict. No process holds the claims of a job whose client was restarted or disconnected: until the job has ended, every request for the
//! same volume, path or pool entry is rejected.

use crate::protocol::BootId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmount_core::mounter::{MountError, MounterRequest, VolumeKey};
use wasmount_core::names::{DriverName, NodePath};
use wasmount_core::pool::PoolCall;

/// All jobs that have a subject.
#[derive(Default)]
pub(crate) struct UnderWay(Mutex<Jobs>);

#[derive(Default)]
struct Jobs {
    last: u64,
    running: BTreeMap<u64, Job>,
}

struct Job {
    /// `None` once the connection is closed.
    caller: Option<BootId>,
    subjects: Vec<Subject>,
}

/// The entry of a job; removed when dropped.
pub(crate) struct Ticket {
    table: Arc<UnderWay>,
    job: u64,
}

/// The subject of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A volume.
    Volume(VolumeKey),
    /// A path of the node.
    Path(NodePath),
    /// An entry of a pool, with everything below it.
    Entry {
        driver: DriverName,
        pool: String,
        path: Vec<String>,
    },
}

impl UnderWay {
    /// Enters a job, unless a job of another client process, or of a disconnected one, has the same subject.
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: BootId,
        subjects: Vec<Subject>,
    ) -> Result<Ticket, MountError> {
        let mut jobs = self.lock();
        let strangers = jobs
            .running
            .values()
            .filter(|job| job.caller != Some(caller));
        for other in strangers.flat_map(|job| &job.subjects) {
            if subjects.iter().any(|subject| subject.meets(other)) {
                return Err(MountError::UnderWay {
                    what: format!("a call of an earlier or another host on {}", other.words()),
                });
            }
        }
        jobs.last += 1;
        let job = jobs.last;
        let caller = Some(caller);
        jobs.running.insert(job, Job { caller, subjects });
        Ok(Ticket {
            table: Arc::clone(self),
            job,
        })
    }

    /// Marks a job that no client waits for any more. It may have ended.
    pub(crate) fn abandon(&self, job: u64) {
        if let Some(job) = self.lock().running.get_mut(&job) {
            job.caller = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// The job's number.
    pub(crate) fn job(&self) -> u64 {
        self.job
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.table.lock().running.remove(&self.job);
    }
}

impl Subject {
    /// A pool entry by its normalized path: different spellings of one path are equal.
    pub(crate) fn entry(driver: DriverName, pool: &str, path: &str) -> Self {
        let parts = path.split('/').filter(|part| !part.is_empty());
        Self::Entry {
            driver,
            pool: pool.to_owned(),
            path: parts.map(str::to_owned).collect(),
        }
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Entry { driver, pool, path },
                Self::Entry {
                    driver: other_driver,
                    pool: other_pool,
                    path: other_path,
                },
            ) => {
                (driver, pool) == (other_driver, other_pool)
                    && (path.starts_with(other_path) || other_path.starts_with(path))
            }
            _ => self == other,
        }
    }

    /// For an administrator; ids are not repeated, since a client can make them long and hard to read.
    fn words(&self) -> String {
        match self {
            Self::Volume(key) => format!("the same volume of {}", key.driver),
            Self::Path(_) => "the same path".to_owned(),
            Self::Entry { driver, .. } => format!("the same pool entry of {driver}"),
        }
    }
}

/// The subjects of a call, if its caller holds claims. A read has no subjects, unless its answer decides the next change.
pub(crate) fn subjects(request: &MounterRequest) -> Vec<Subject> {
    match request {
        MounterRequest::Staged(it) => vec![volume(&it.key)],
        MounterRequest::Expand(it) => vec![volume(&it.key)],
        MounterRequest::Notes(key) | MounterRequest::Recover(key) => vec![volume(key)],
        MounterRequest::Stage(it) => vec![volume(&it.key), path(&it.staging_path)],
        MounterRequest::Unstage(it) => vec![volume(&it.key), path(&it.staging_path)],
        MounterRequest::Publish(it) => vec![volume(&it.key), path(&it.target_path)],
        MounterRequest::Unpublish(it) => vec![volume(&it.key), path(&it.target_path)],
        MounterRequest::Pool(driver, call) => entries(driver, call),
        MounterRequest::Stats(_)
        | MounterRequest::Health(_)
        | MounterRequest::Unsettled(_)
        | MounterRequest::UnsharedRoots
        | MounterRequest::VolumesInUse(_) => Vec::new(),
    }
}

fn volume(key: &VolumeKey) -> Subject {
    Subject::Volume(key.clone())
}

fn path(path: &NodePath) -> Subject {
    Subject::Path(path.clone())
}

/// The entries of a pool that a call changes, or reads while it creates another.
fn entries(driver: &DriverName, call: &PoolCall) -> Vec<Subject> {
    let (Some(pool), paths) = call.pool_and_paths() else {
        return Vec::new();
    };
    let entry = |path| Subject::entry(driver.clone(), pool, path);
    match call.is_reading() {
        true => Vec::new(),
        false => paths.into_iter().map(entry).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::names::VolumeId;

    fn volume(id: &str) -> Subject {
        Subject::Volume(VolumeKey {
            driver: driver(),
            volume: VolumeId::parse("volume_id", id).unwrap(),
        })
    }

    fn driver() -> DriverName {
        DriverName::parse("a.b").unwrap()
    }

    fn entry(path: &str) -> Subject {
        Subject::entry(driver(), "main", path)
    }

    fn boot_ids() -> [BootId; 2] {
        [BootId::begin().unwrap(), BootId::begin().unwrap()]
    }

    fn is_refused(begun: &Result<Ticket, MountError>) -> bool {
        matches!(begun, Err(MountError::UnderWay { .. }))
    }

    #[test]
    fn a_restarted_client_is_refused_what_its_last_run_still_does() {
        let (table, [earlier, later]) = (Arc::new(UnderWay::default()), boot_ids());
        let job = table.begin(earlier, vec![volume("v")]).unwrap();
        assert!(is_refused(&table.begin(later, vec![volume("v")])));
        assert!(table.begin(later, vec![volume("w")]).is_ok());
        assert!(table.begin(later, Vec::new()).is_ok());
        drop(job);
        assert!(table.begin(later, vec![volume("v")]).is_ok());
    }

    #[test]
    fn calls_of_one_life_are_trusted_until_nobody_waits_for_one() {
        let (table, [boot_id, _]) = (Arc::new(UnderWay::default()), boot_ids());
        let job = table.begin(boot_id, vec![volume("v")]).unwrap();
        assert!(table.begin(boot_id, vec![volume("v")]).is_ok());
        table.abandon(job.job());
        assert!(is_refused(&table.begin(boot_id, vec![volume("v")])));
        drop(job);
        assert!(table.begin(boot_id, vec![volume("v")]).is_ok());
    }

    #[test]
    fn entries_of_a_pool_meet_where_one_holds_the_other() {
        for (one, other, meet) in [
            ("v", "v", true),
            ("v", "v/", true),
            ("a//b", "a/b", true),
            ("a", "a/b", true),
            ("a/b", "a", true),
            ("a", "ab", false),
            ("a/b", "a/c", false),
        ] {
            assert_eq!(entry(one).meets(&entry(other)), meet, "{one} and {other}");
        }
        let elsewhere = Subject::entry(driver(), "other", "v");
        let another = Subject::entry(DriverName::parse("c.d").unwrap(), "main", "v");
        assert!(!entry("v").meets(&elsewhere) && !entry("v").meets(&another));
    }
}

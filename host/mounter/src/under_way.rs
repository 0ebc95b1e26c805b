//! Running jobs and the client process that each belongs to.
//!
//! Claims are in the client's memory: a restarted client has lost them while its jobs continue here. Calls of one client process hold claims and
//! cannot conflict. No process holds the claims of a job whose client was restarted or disconnected: until the job has ended, every request for the
//! same volume, path or pool entry is rejected.

use crate::protocol::BootId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wasmount_core::mounter::{MountError, MounterRequest, VolumeKey};
use wasmount_core::mutex::lock;
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
    /// The job's number.
    pub(crate) job: u64,
}

/// The subject of a job, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// For an administrator; ids are not repeated, since a client can make them long and hard to read.
    kind: String,
    path: Vec<String>,
}

impl UnderWay {
    /// Enters a job, unless a job of another client process, or of a disconnected one, has the same subject.
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: BootId,
        subjects: Vec<Subject>,
    ) -> Result<Ticket, MountError> {
        let mut jobs = lock(&self.0);
        let strangers = jobs
            .running
            .values()
            .filter(|job| job.caller != Some(caller));
        for other in strangers.flat_map(|job| &job.subjects) {
            if subjects.iter().any(|subject| subject.meets(other)) {
                let kind = &other.kind;
                return Err(MountError::under_way(format!(
                    "a call of an earlier or another host on {kind}"
                )));
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
        if let Some(job) = lock(&self.0).running.get_mut(&job) {
            job.caller = None;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.table.0).running.remove(&self.job);
    }
}

impl Subject {
    fn volume(key: &VolumeKey) -> Self {
        Self {
            kind: format!("the same volume of {}", key.driver),
            path: vec![key.volume.as_str().to_owned()],
        }
    }

    fn path(path: &NodePath) -> Self {
        Self {
            kind: "the same path".to_owned(),
            path: vec![path.as_str().to_owned()],
        }
    }

    /// An entry of a pool by its normalized path: different spellings of one path are equal.
    fn entry(driver: &DriverName, pool: &str, path: &str) -> Self {
        let parts = path.split('/').filter(|part| !part.is_empty());
        Self {
            kind: format!("the same pool entry of {driver}"),
            path: [pool].into_iter().chain(parts).map(str::to_owned).collect(),
        }
    }

    fn meets(&self, other: &Self) -> bool {
        self.kind == other.kind
            && (self.path.starts_with(&other.path) || other.path.starts_with(&self.path))
    }
}

/// The subjects of a call, if its caller holds claims. A read has no subjects, unless its answer decides the next change.
pub(crate) fn subjects(request: &MounterRequest) -> Vec<Subject> {
    let with_path = |key, path| vec![Subject::volume(key), Subject::path(path)];
    match request {
        MounterRequest::Staged(it) => vec![Subject::volume(&it.key)],
        MounterRequest::Expand(it) => vec![Subject::volume(&it.key)],
        MounterRequest::Notes(key) | MounterRequest::Recover(key) => vec![Subject::volume(key)],
        MounterRequest::Stage(it) => with_path(&it.key, &it.staging_path),
        MounterRequest::Unstage(it) => with_path(&it.key, &it.staging_path),
        MounterRequest::Publish(it) => with_path(&it.key, &it.target_path),
        MounterRequest::Unpublish(it) => with_path(&it.key, &it.target_path),
        MounterRequest::Pool(driver, call) => entries(driver, call),
        MounterRequest::Stats(_)
        | MounterRequest::Health(_)
        | MounterRequest::Unsettled(_)
        | MounterRequest::Status
        | MounterRequest::VolumesInUse(_)
        | MounterRequest::ConfigDrive(_)
        | MounterRequest::NodeFact(..) => Vec::new(),
    }
}

/// The entries of a pool that a call changes, or reads while it creates another.
fn entries(driver: &DriverName, call: &PoolCall) -> Vec<Subject> {
    match call.pool_and_paths() {
        (Some(pool), paths) if !call.is_reading() => {
            let entry = |path| Subject::entry(driver, pool, path);
            paths.into_iter().map(entry).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::names::VolumeId;

    fn volume(id: &str) -> Subject {
        Subject::volume(&VolumeKey {
            driver: driver(),
            volume: VolumeId::parse("volume_id", id).unwrap(),
        })
    }

    fn driver() -> DriverName {
        DriverName::parse("a.b").unwrap()
    }

    fn entry(path: &str) -> Subject {
        Subject::entry(&driver(), "main", path)
    }

    fn boot_ids() -> [BootId; 2] {
        [BootId::new_v4(), BootId::new_v4()]
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
    fn calls_of_one_boot_id_share_until_one_is_abandoned() {
        let (table, [boot_id, _]) = (Arc::new(UnderWay::default()), boot_ids());
        let job = table.begin(boot_id, vec![volume("v")]).unwrap();
        assert!(table.begin(boot_id, vec![volume("v")]).is_ok());
        table.abandon(job.job);
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
        let elsewhere = Subject::entry(&driver(), "other", "v");
        let another = Subject::entry(&DriverName::parse("c.d").unwrap(), "main", "v");
        assert!(!entry("v").meets(&elsewhere) && !entry("v").meets(&another));
    }
}

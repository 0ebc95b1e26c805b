//! Every call of a pool: correct, wrong and repeated. This file has the tests that concern all calls; each file below covers one subject.

mod attacks;
mod calls;
mod clones;
mod directories;
mod disk;
mod disks;
mod extents;
mod faults;
mod images;
mod jobs;
mod kills;
mod leaving;
mod memory;
mod moments;
mod openings;
mod promises;
mod work;

use super::*;
use calls::*;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use wasmount_core::pool::{PoolEntry, PoolEntryKind, PoolUsage};

/// A driver with the pool `data`.
struct Fixture {
    directory: TempDir,
    pools: Arc<Pools>,
    used: Arc<Used>,
}

/// Ends a thread that runs beside a test, also when the test panics: its scope waits for all of its threads.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Used(Mutex<Vec<String>>);

impl InUse for Used {
    fn may_use(&self, _: &str, _: &dyn Fn(&str) -> bool) -> bool {
        true
    }

    fn uses(&self, pool: &str, touches: &dyn Fn(&str) -> bool) -> bool {
        assert_eq!(pool, "data");
        self.0.lock().unwrap().iter().any(|path| touches(path))
    }
}

impl Pools {
    /// Serves a call on the thread of a test, without a deadline. A copy that another call makes is [`MountError::UnderWay`] at once.
    fn call(&self, call: PoolCall) -> Result<PoolReply, MountError> {
        match self.begin(call)? {
            Begun::Done(reply) => Ok(reply),
            Begun::Copy(ours, waiting) => {
                if let Some((job, claim)) = ours {
                    claim.end(job.run());
                }
                waiting.now().map(|()| PoolReply::Done)
            }
        }
    }
}

impl Fixture {
    fn new() -> Self {
        Self::with(false)
    }

    fn with(full_copies: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::below(directory, full_copies)
    }

    fn below(directory: TempDir, full_copies: bool) -> Self {
        let used = Arc::new(Used::default());
        let pools = pools(&directory.path().join("pool"), full_copies, &used);
        Self {
            directory,
            pools,
            used,
        }
    }

    /// The same pool after a restart of the host.
    fn restarted(self) -> Self {
        let Self {
            directory,
            pools,
            used,
        } = self;
        drop(pools);
        let pools = super::tests::pools(&directory.path().join("pool"), true, &used);
        Self {
            directory,
            pools,
            used,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join("pool").join(path)
    }

    fn call(&self, call: PoolCall) -> Result<PoolReply, MountError> {
        self.pools.call(call)
    }

    fn done(&self, call: PoolCall) {
        assert_eq!(self.call(call.clone()), Ok(PoolReply::Done), "{call:?}");
    }

    fn stat(&self, path: &str) -> Option<PoolEntry> {
        let (pool, path) = ("data".to_owned(), path.to_owned());
        match self.call(PoolCall::Stat { pool, path }) {
            Ok(PoolReply::Stat(entry)) => entry,
            other => panic!("{other:?}"),
        }
    }

    fn capacity(&self) -> PoolUsage {
        let pool = "data".to_owned();
        match self.call(PoolCall::Capacity { pool }) {
            Ok(PoolReply::Capacity(usage)) => usage,
            other => panic!("{other:?}"),
        }
    }

    fn promised(&self) -> u64 {
        self.pools.open("data").unwrap().ledger.promised()
    }

    /// Fills a tree with directories of 100 names each. These are hard links of few files: creating files is slow on the test machine and is not the
    /// subject.
    fn fill(&self, path: &str, directories: usize) {
        for i in 0..directories {
            let directory = self.path(path).join(i.to_string());
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("0"), i.to_string()).unwrap();
            for j in 1..100 {
                let name = directory.join(j.to_string());
                std::fs::hard_link(directory.join("0"), name).unwrap();
            }
        }
    }

    /// Waits until the host's private directories are empty.
    fn wait_until_clear(&self) {
        self.stat("x");
        for _ in 0..500 {
            let left = |name: &str| {
                let folder = self.path(".wasmount").join(name);
                std::fs::read_dir(folder).unwrap().count()
            };
            if left("trash") + left("unfinished") == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the trash is not emptied");
    }
}

fn pools(path: &Path, full_copies: bool, used: &Arc<Used>) -> Arc<Pools> {
    let grant = PoolGrant {
        storage: PoolStorage::Directory(path.to_owned()),
        full_copies,
        mount_options: vec![],
    };
    let used: Arc<dyn InUse> = Arc::<Used>::clone(used);
    let granted = BTreeMap::from([("data".to_owned(), grant)]);
    Arc::new(opened_for(&granted, used, path))
}

/// Pools that are directories: nothing is mounted for them.
fn opened_for(granted: &BTreeMap<String, PoolGrant>, in_use: Arc<dyn InUse>, path: &Path) -> Pools {
    let driver = DriverName::parse("pools.test").unwrap();
    let mounted = MountedPools::new(path);
    Pools::new(&driver, granted, in_use, freezer(path), &mounted)
}

/// A freezer with a run directory beside the pool or above it.
fn freezer(pool: &Path) -> Arc<Freezer> {
    let above = pool.ancestors().skip(1).find(|it| it.is_dir()).unwrap();
    Arc::new(Freezer::open(&above.join("run")).unwrap())
}

fn to_be_copied(source: &str, target: &str) -> Pair {
    Pair::parse("data", source, target).unwrap()
}

/// The variant of an error, for tables.
fn kind(result: Result<PoolReply, MountError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(MountError::NotFound { .. }) => "not found",
        Err(MountError::Invalid { .. }) => "invalid",
        Err(MountError::AlreadyExists { .. }) => "otherwise there",
        Err(MountError::InUse { .. }) => "in use",
        Err(MountError::NotGranted { .. }) => "not granted",
        Err(MountError::Unsupported { .. }) => "unsupported",
        Err(MountError::NoSpace { .. }) => "no space",
        Err(MountError::UnderWay { .. }) => "under way",
        Err(MountError::Precondition { .. }) => "precondition",
        Err(MountError::Unusable { .. }) => "unusable",
        Err(MountError::Hung { .. }) => "hung",
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_names_are_those_of_the_grants() {
    let names = Fixture::new().call(PoolCall::Names);
    assert_eq!(names, Ok(PoolReply::Names(vec!["data".to_owned()])));
}

#[test]
fn a_pool_that_is_not_granted_is_refused() {
    let fixture = Fixture::new();
    let pool = || "else".to_owned();
    let path = || "a".to_owned();
    for call in [
        PoolCall::Capacity { pool: pool() },
        PoolCall::CreateDirectory {
            pool: pool(),
            path: path(),
        },
        PoolCall::RemoveDirectory {
            pool: pool(),
            path: path(),
        },
        PoolCall::CloneImage {
            pool: pool(),
            source: path(),
            target: "b".to_owned(),
        },
    ] {
        assert_eq!(kind(fixture.call(call)), "not granted");
    }
}

#[test]
fn a_path_that_leads_out_of_the_pool_is_refused_by_every_call() {
    let fixture = Fixture::new();
    for path in [
        "..",
        "a/../..",
        "/etc",
        "a//b",
        ".wasmount",
        ".wasmount/trash",
    ] {
        for call in calls_on(path) {
            assert_eq!(kind(fixture.call(call.clone())), "invalid", "{call:?}");
        }
        assert_eq!(kind(fixture.call(list(path, None, 1))), "invalid");
    }
}

#[test]
fn a_symbolic_link_is_followed_by_no_call() {
    let fixture = Fixture::with(true);
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(outside.path().join("tree")).unwrap();
    std::fs::write(outside.path().join("image"), [1; 4096]).unwrap();
    fixture.done(create("start"));
    symlink(outside.path(), fixture.path("link")).unwrap();
    symlink(outside.path().join("tree"), fixture.path("tree")).unwrap();
    symlink(outside.path().join("image"), fixture.path("image")).unwrap();
    for path in [
        "link/tree",
        "link/image",
        "link/new",
        "link",
        "tree",
        "image",
    ] {
        for call in calls_on(path) {
            let result = fixture.call(call.clone());
            match call {
                // The link itself may be listed and renamed.
                PoolCall::Stat { .. } if !path.contains('/') => assert!(result.is_ok()),
                PoolCall::Rename { .. } if !path.contains('/') => {
                    let _ = result;
                    let _ = std::fs::rename(fixture.path("other"), fixture.path(path));
                }
                _ => assert!(result.is_err(), "{call:?}"),
            }
        }
    }
    assert_eq!(kind(fixture.call(list("link", None, 10))), "invalid");
    let mut left: Vec<_> = std::fs::read_dir(outside.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["image", "tree"]);
    assert_eq!(
        std::fs::read(outside.path().join("image")).unwrap(),
        [1; 4096]
    );
    let link = fixture.stat("link").unwrap();
    assert_eq!(link.kind, PoolEntryKind::Other("symbolic link".to_owned()));
}

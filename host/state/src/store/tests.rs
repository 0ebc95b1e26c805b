//! The redb store against the conformance suite, a model, a restart and a full disk.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tempfile::TempDir;
use wasmount_core::state::{STATE_VALUE_BYTES, record_bytes};
use wasmount_store_conformance::{conforms, space};

fn store() -> (TempDir, Arc<RedbStore>) {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path()).unwrap();
    (directory, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_redb_store_conforms() {
    let (_directory, store) = store();
    conforms(store).await;
}

#[tokio::test]
async fn what_was_synced_is_there_after_a_restart_and_revisions_go_on() {
    let (directory, store) = store();
    let space = space("a");
    let put = store.put(&space, "k", b"v".to_vec(), Expect::Any).await;
    store.sync().await.unwrap();
    drop(store);
    let store = RedbStore::open(directory.path()).unwrap();
    let entry = store.get(&space, "k").await.unwrap().unwrap();
    assert_eq!(entry.value, b"v");
    assert_eq!(put.unwrap(), Outcome::Done(entry.revision));
    let again = store.put(&space, "k", b"v".to_vec(), Expect::Any).await;
    assert!(matches!(again.unwrap(), Outcome::Done(revision) if revision > entry.revision));
}

#[tokio::test]
async fn a_second_store_on_the_same_directory_is_refused() {
    let (directory, _store) = store();
    assert!(matches!(
        RedbStore::open(directory.path()),
        Err(OpenError::Lock(crate::LockError::Held { .. }))
    ));
}

#[tokio::test]
async fn more_than_may_wait_is_committed_without_a_sync() {
    let (_directory, store) = store();
    let space = space("a");
    for i in 0..3 * crate::pending::PENDING_BYTES / STATE_VALUE_BYTES {
        let value = vec![1; STATE_VALUE_BYTES];
        let put = store.put(&space, &i.to_string(), value, Expect::Any).await;
        assert!(matches!(put.unwrap(), Outcome::Done(_)));
    }
    let first = store.shared.database.get(&space, "0").unwrap();
    assert!(first.is_some(), "it still waits");
    // And a page of large values stays small.
    let page = store.scan(&space, "", None, 1000).await.unwrap();
    assert_eq!(page.len(), STATE_SCAN_BYTES / STATE_VALUE_BYTES);
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    PutAbsent(u8, u8),
    Remove(u8),
    Sync,
    Restart,
    Scan(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6u8;
    prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        2 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Step::PutAbsent(k, v)),
        2 => key.clone().prop_map(Step::Remove),
        1 => Just(Step::Sync),
        1 => Just(Step::Restart),
        2 => (key, 0..8u8).prop_map(|(k, limit)| Step::Scan(k, limit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_store_answers_like_a_map(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(follow(steps));
    }
}

async fn follow(steps: Vec<Step>) {
    let (directory, mut store) = store();
    let space = space("model");
    let mut model: BTreeMap<String, (Vec<u8>, u64)> = BTreeMap::new();
    let mut last = 0;
    for step in steps {
        match step {
            Step::Put(k, v) => {
                let key = k.to_string();
                let put = store.put(&space, &key, vec![v], Expect::Any).await;
                let Outcome::Done(revision) = put.unwrap() else {
                    panic!("conflict");
                };
                assert!(revision > last);
                last = revision;
                model.insert(key, (vec![v], revision));
            }
            Step::PutAbsent(k, v) => {
                let key = k.to_string();
                let put = store.put(&space, &key, vec![v], Expect::Absent).await;
                match (put.unwrap(), model.get(&key)) {
                    (Outcome::Done(revision), None) => {
                        assert!(revision > last);
                        last = revision;
                        model.insert(key, (vec![v], revision));
                    }
                    (Outcome::Conflict(Some(entry)), Some(stored)) => {
                        assert_eq!((entry.value, entry.revision), *stored);
                    }
                    other => panic!("{other:?}"),
                }
            }
            Step::Remove(k) => {
                let removed = store.remove(&space, &k.to_string(), Expect::Any).await;
                let revision = model.remove(&k.to_string()).map_or(0, |stored| stored.1);
                assert_eq!(removed.unwrap(), Outcome::Done(revision));
            }
            Step::Sync => {
                store.sync().await.unwrap();
                assert_eq!(store.size(&space).await.unwrap(), size_of(&model));
            }
            Step::Restart => {
                drop(store);
                store = RedbStore::open(directory.path()).unwrap();
            }
            Step::Scan(k, limit) => {
                let after = k.to_string();
                let page = store.scan(&space, "", Some(&after), limit.into()).await;
                let expected: Vec<_> = model
                    .range(after..)
                    .skip_while(|(key, _)| **key == k.to_string())
                    .take(limit.into())
                    .map(|(key, stored)| (key.clone(), stored.clone()))
                    .collect();
                let page: Vec<_> = page
                    .unwrap()
                    .into_iter()
                    .map(|entry| (entry.key, (entry.value, entry.revision)))
                    .collect();
                assert_eq!(page, expected);
            }
        }
        assert!(store.size(&space).await.unwrap() >= size_of(&model));
    }
}

fn size_of(model: &BTreeMap<String, (Vec<u8>, u64)>) -> u64 {
    let sizes = model
        .iter()
        .map(|(key, (value, _))| record_bytes(key, value.len()));
    sizes.sum()
}

/// A separate file system, so that it can be filled.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        rustix::mount::mount(
            "none",
            directory.path(),
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            Some(options.as_c_str()),
        )
        .expect("mounting a tmpfs needs root (CAP_SYS_ADMIN)");
        Self(directory)
    }

    fn fill(&self) -> std::path::PathBuf {
        use std::io::Write;
        let path = self.0.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }

    /// Fills the file system except for this many bytes.
    fn fill_but(&self, bytes: u64) -> std::path::PathBuf {
        let path = self.fill();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - bytes).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[tokio::test]
async fn privileged_a_full_disk_rejects_writes_and_allows_removals() {
    let disk = SmallDisk::mount(64 << 20);
    let store = RedbStore::open(disk.0.path()).unwrap();
    let space = space("a");
    for i in 0..100 {
        let key = i.to_string();
        let put = store.put(&space, &key, vec![7; 1000], Expect::Any).await;
        put.unwrap();
    }
    store.sync().await.unwrap();
    let filler = disk.fill();
    let put = store.put(&space, "new", vec![7], Expect::Any).await;
    assert!(matches!(put, Err(StateError::Full)), "{put:?}");
    assert_eq!(store.get(&space, "new").await.unwrap(), None);
    let longer = store.put(&space, "1", vec![8; 1001], Expect::Any).await;
    assert!(matches!(longer, Err(StateError::Full)), "{longer:?}");
    // For example a node's list of volumes when one is deleted: without this, none of them could be deleted to free space.
    let shorter = store.put(&space, "1", vec![8; 999], Expect::Any).await;
    assert!(matches!(shorter, Ok(Outcome::Done(_))), "{shorter:?}");
    let removed = store.remove(&space, "0", Expect::Any).await.unwrap();
    assert!(matches!(removed, Outcome::Done(revision) if revision > 0));
    store.sync().await.unwrap();
    std::fs::remove_file(filler).unwrap();
    let put = store.put(&space, "new", vec![7], Expect::Any).await;
    assert!(matches!(put.unwrap(), Outcome::Done(_)));
}

#[tokio::test]
async fn privileged_an_unwritten_transaction_changes_nothing() {
    let disk = SmallDisk::mount(64 << 20);
    let store = RedbStore::open(disk.0.path()).unwrap();
    let space = space("a");
    let write = |key: &str, value: Option<Vec<u8>>| StateWrite {
        space: space.clone(),
        key: key.to_owned(),
        value,
    };
    store
        .apply(vec![
            write("old", Some(vec![1])),
            write("other", Some(vec![2])),
        ])
        .await
        .unwrap();
    let filler = disk.fill_but(20 << 20);
    let mut writes = vec![write("old", Some(vec![3])), write("other", None)];
    writes.extend((0..40).map(|i: u8| write(&i.to_string(), Some(vec![i; 1 << 20]))));
    let applied = store.apply(writes).await;
    assert!(matches!(applied, Err(StateError::Full)), "{applied:?}");
    let value = async |key: &str| {
        let entry = store.get(&space, key).await.unwrap();
        entry.map(|entry| entry.value)
    };
    assert_eq!(value("old").await, Some(vec![1]));
    assert_eq!(value("other").await, Some(vec![2]));
    assert_eq!(value("7").await, None);
    std::fs::remove_file(filler).unwrap();
    store.sync().await.unwrap();
    drop(store);
    let store = RedbStore::open(disk.0.path()).unwrap();
    assert_eq!(store.scan(&space, "", None, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_transaction_of_too_many_writes_is_refused_whole() {
    let (_directory, store) = store();
    let write = |number: usize| StateWrite {
        space: space("a"),
        key: number.to_string(),
        value: Some(Vec::new()),
    };
    let applied = store
        .apply((0..=TRANSACTION_WRITES).map(write).collect())
        .await;
    assert!(matches!(
        applied,
        Err(StateError::TooLarge { what: "transaction", limit, .. }) if limit == TRANSACTION_WRITES
    ));
    assert_eq!(store.size(&space("a")).await.unwrap(), 0);
}

#[tokio::test]
async fn privileged_a_disk_that_fills_before_the_sync_loses_nothing() {
    let disk = SmallDisk::mount(64 << 20);
    let store = RedbStore::open(disk.0.path()).unwrap();
    let space = space("a");
    store
        .put(&space, "old", vec![1], Expect::Any)
        .await
        .unwrap();
    store.sync().await.unwrap();
    // More than the free pages of the file, so that it must grow.
    for i in 0..6 {
        let value = vec![i; 600_000];
        let put = store.put(&space, &i.to_string(), value, Expect::Any).await;
        assert!(matches!(put.unwrap(), Outcome::Done(_)));
    }
    let filler = disk.fill();
    let (first, second) = tokio::join!(store.sync(), store.sync());
    for result in [first, second] {
        assert!(matches!(result, Err(StateError::Full)), "{result:?}");
    }
    let entry = store.get(&space, "5").await.unwrap().unwrap();
    assert_eq!(entry.value, vec![5; 600_000]);
    assert!(store.get(&space, "old").await.unwrap().is_some());
    std::fs::remove_file(filler).unwrap();
    store.sync().await.unwrap();
    drop(store);
    let store = RedbStore::open(disk.0.path()).unwrap();
    assert_eq!(store.get(&space, "5").await.unwrap(), Some(entry));
}

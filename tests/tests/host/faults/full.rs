//! Disks that are full: what needs space is refused with RESOURCE_EXHAUSTED, tear-down needs none, and with space again all works again.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tonic::Code;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::left_behind;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, code};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use wasmount_tests::small_disk::SmallDisk;

/// A small pool, in bytes: room for some volumes.
const POOL_BYTES: u64 = 16 << 20;

/// A small data directory, in bytes: the store keeps 16 MiB in reserve, and the compiled plugin needs some.
const DATA_BYTES: u64 = 128 << 20;

/// A small run directory, in bytes: four pages, of which an entry takes one and a change of it another.
const RUN_BYTES: u64 = 16 << 10;

/// A pool with few inodes.
const INODES: u64 = 32;

/// A host whose pool lies by itself, so that it can be filled by itself.
struct Filled {
    host: Host,
    pool: PathBuf,
    _folder: TempDir,
}

impl Filled {
    fn start() -> Self {
        Self::start_on(|_| ()).0
    }

    /// On a disk for its pool, which is there before the host: the host keeps the pool that it finds.
    fn start_on<D>(disk: impl FnOnce(&Path) -> D) -> (Self, D) {
        needs_root();
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("pool");
        fs::create_dir(&pool).unwrap();
        let disk = disk(&pool);
        let document = documents::directory_over_pool(folder.path(), &pool).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            ..HostOptions::default()
        });
        let filled = Self {
            host: host.unwrap(),
            pool,
            _folder: folder,
        };
        (filled, disk)
    }

    async fn orchestrator(&self) -> Orchestrator {
        self.host.orchestrator().await.unwrap()
    }

    fn assert_nothing_left(&self) {
        let left = left_behind(&self.host, &self.pool).unwrap();
        assert!(left.is_empty(), "{left:#?}");
    }
}

fn small_pool(pool: &Path) -> SmallDisk {
    SmallDisk::mount(pool, POOL_BYTES).unwrap()
}

#[tokio::test]
async fn privileged_a_full_data_directory_refuses_only_new_volumes() {
    let mut filled = Filled::start();
    filled.host.terminate().unwrap();
    let disk = SmallDisk::mount(&filled.host.data(), DATA_BYTES).unwrap();
    filled.host.restart().unwrap();
    let orchestrator = filled.orchestrator().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    let other = orchestrator.created("other").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    disk.fill().unwrap();
    let request = requests::create("more", VOLUME_BYTES);
    let refused = orchestrator.create(request.clone()).await;
    // Its tree is made and its record is not: a code that is final would leave it behind.
    assert_eq!(code(&refused), Code::Aborted, "{refused:?}");
    orchestrator
        .stats(&volume.id, &volume.target)
        .await
        .unwrap();
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.delete(&other.id).await.unwrap();

    // A full disk does not keep the host from coming back.
    filled.host.kill_9().unwrap();
    filled.host.restart().unwrap();
    let orchestrator = filled.orchestrator().await;
    orchestrator.is_known(&volume.id).await.unwrap();
    assert_eq!(
        code(&orchestrator.is_known(&other.id).await),
        Code::NotFound
    );
    disk.free().unwrap();
    let (more, _) = orchestrator.create(request).await.unwrap();
    orchestrator.delete(&more).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    filled.assert_nothing_left();
    filled.host.terminate().unwrap();
}

#[tokio::test]
async fn privileged_a_pool_filled_by_pods_refuses_only_new_volumes() {
    let (filled, disk) = Filled::start_on(small_pool);
    let orchestrator = filled.orchestrator().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    let other = orchestrator.created("other").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();
    disk.fill().unwrap();
    assert_eq!(orchestrator.capacity().await.unwrap(), 0);
    let request = requests::create("more", VOLUME_BYTES);
    let refused = orchestrator.create(request.clone()).await;
    assert_eq!(code(&refused), Code::ResourceExhausted, "{refused:?}");
    let grown = orchestrator.expand(requests::expand(&volume.id, 2 * VOLUME_BYTES));
    assert_eq!(code(&grown.await), Code::ResourceExhausted);
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.delete(&other.id).await.unwrap();
    disk.free().unwrap();
    let (more, _) = orchestrator.create(request).await.unwrap();
    orchestrator.delete(&more).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    filled.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_pool_is_not_promised_twice() {
    let (filled, _disk) = Filled::start_on(small_pool);
    let orchestrator = filled.orchestrator().await;
    let whole = orchestrator.capacity().await.unwrap();
    let half = whole / 2 + 1;
    let (first, _) = orchestrator
        .create(requests::create("first", half))
        .await
        .unwrap();
    let second = orchestrator.create(requests::create("second", half)).await;
    assert_eq!(code(&second), Code::ResourceExhausted);
    orchestrator.delete(&first).await.unwrap();
    let (second, _) = orchestrator
        .create(requests::create("second", half))
        .await
        .unwrap();
    orchestrator.delete(&second).await.unwrap();
    filled.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_pool_without_inodes_refuses_new_volumes() {
    let (filled, _disk) = Filled::start_on(|pool| SmallDisk::of_inodes(pool, INODES).unwrap());
    let orchestrator = filled.orchestrator().await;
    let mut ids = Vec::new();
    let refused = loop {
        let request = requests::create(&format!("pvc-{}", ids.len()), VOLUME_BYTES);
        match orchestrator.create(request).await {
            Ok((id, _)) => ids.push(id),
            refused => break refused,
        }
    };
    assert_eq!(code(&refused), Code::ResourceExhausted, "{refused:?}");
    assert!(!ids.is_empty());
    for id in &ids {
        orchestrator.is_known(id).await.unwrap();
        orchestrator.delete(id).await.unwrap();
    }
    filled.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_full_run_directory_refuses_only_new_mounts() {
    let mut filled = Filled::start();
    filled.host.terminate().unwrap();
    let disk = SmallDisk::mount(&filled.host.run(), RUN_BYTES).unwrap();
    filled.host.restart().unwrap();
    let orchestrator = filled.orchestrator().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    let other = orchestrator.created("other").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    disk.fill().unwrap();
    let refused = orchestrator.stage(&other).await;
    assert_eq!(code(&refused), Code::ResourceExhausted, "{refused:?}");
    let mounts = [volume.staging.as_path(), volume.target.as_path()];
    assert_eq!(
        filled.host.mounts().unwrap().get(1..),
        Some(&mounts.map(PathBuf::from)[..])
    );
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    disk.free().unwrap();
    orchestrator.set_up(&other).await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&other).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    filled.assert_nothing_left();
    filled.host.terminate().unwrap();
}

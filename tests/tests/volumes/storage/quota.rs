//! Volumes as trees of a pool with project quotas, which the kernel of most machines that run these tests lacks: a pod cannot write more than its
//! volume has.

use crate::storage::begin;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::kinds::Kind;
use wasmount_tests::loop_disk::LoopDisk;
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::requests;

/// Size of the pool: mkfs.xfs needs 300 MiB.
const DISK_BYTES: u64 = 512 << 20;

/// Size of a volume.
const VOLUME_BYTES: i64 = 4 << 20;

/// More than a volume, and less than one that was expanded.
const TOO_MUCH_BYTES: usize = 8 << 20;

/// Size of a volume that was expanded.
const EXPANDED_BYTES: i64 = 32 << 20;

/// Writes a file as a pod does: by default a container has no CAP_SYS_RESOURCE, for which ext4 makes an exception from quotas.
fn write_as_a_pod(path: &Path, bytes: usize) -> io::Result<()> {
    let write = || {
        let mut own = capabilities(None)?;
        own.effective.remove(CapabilitySet::SYS_RESOURCE);
        set_capabilities(None, own)?;
        fs::write(path, vec![1; bytes]).and_then(|()| fs::File::open(path)?.sync_all())
    };
    // Capabilities belong to a thread.
    thread::scope(|scope| scope.spawn(write).join().unwrap())
}

/// What is beyond the quota is refused as `refusal`.
async fn a_tree_is_limited(file_system: &str, refusal: ErrorKind) {
    needs_other_kernel();
    begin();
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    fs::create_dir(&pool).unwrap();
    let _disk = LoopDisk::with_project_quota(file_system, &pool, DISK_BYTES).unwrap();
    let document = documents::hostpath_over_pool(folder.path(), &pool).unwrap();
    let host = Host::start(HostOptions {
        backends: vec![document],
        ..HostOptions::default()
    });
    let host = host.unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let kind = Kind::Directory;
    let mut volumes = Vec::new();
    for name in ["full", "neighbour"] {
        let mut request = kind.create(name);
        request.capacity_range = Some(requests::at_least(VOLUME_BYTES));
        let (id, bytes) = orchestrator.create(request).await.unwrap();
        assert_eq!(bytes, VOLUME_BYTES);
        let volume = orchestrator.place(name, id).unwrap();
        kind.set_up(&orchestrator, &volume).await.unwrap();
        volumes.push(volume);
    }
    let [full, neighbour] = &volumes[..] else {
        panic!("{volumes:?}");
    };
    let file = full.target.join("file");
    let written = write_as_a_pod(&file, TOO_MUCH_BYTES).unwrap_err();
    assert_eq!(written.kind(), refusal, "{written:?}");
    // Its neighbour has its own bytes.
    write_as_a_pod(&neighbour.target.join("file"), 1 << 20).unwrap();
    let request = requests::expand(&full.id, EXPANDED_BYTES);
    assert_eq!(
        orchestrator.expand(request).await.unwrap(),
        (EXPANDED_BYTES, false)
    );
    write_as_a_pod(&file, TOO_MUCH_BYTES).unwrap();
    let written = write_as_a_pod(&neighbour.target.join("file"), TOO_MUCH_BYTES);
    assert_eq!(written.unwrap_err().kind(), refusal);
    for volume in &volumes {
        orchestrator.tear_down(volume).await.unwrap();
    }
}

#[tokio::test]
async fn on_other_kernel_a_tree_on_ext4_is_limited() {
    a_tree_is_limited("ext4", ErrorKind::QuotaExceeded).await;
}

/// In xfs a project is as a small disk.
#[tokio::test]
async fn on_other_kernel_a_tree_on_xfs_is_limited() {
    a_tree_is_limited("xfs", ErrorKind::StorageFull).await;
}

//! A pool that is full or read-only at each step of an image's life: what needs space is refused with a code that the caller understands,
//! nothing half-made is left, tear-down works, and with space again everything does.

use crate::storage::{Row, assert_codes, begin};
use std::path::PathBuf;
use tempfile::TempDir;
use tonic::Code;
use wasmount_tests::copies::{cloned, copy, delete_snapshot, snapshot};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::leaks::left_behind;
use wasmount_tests::loop_devices;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};
use wasmount_tests::requests;
use wasmount_tests::small_disk::SmallDisk;

/// Room for some images of 16 MiB that are mostly holes, in bytes.
const POOL_BYTES: u64 = 192 << 20;

/// The tools make it in no time.
const KIND: Kind = Kind::Filesystem("ext4");

/// Larger than what the file system of a volume keeps free inside of blocks that it has already, in bytes.
const MUCH: usize = 8 << 20;

/// A host whose pool is a small disk.
struct Small {
    host: Host,
    orchestrator: Orchestrator,
    pool: PathBuf,
    /// Absent once it is gone.
    disk: Option<SmallDisk>,
    _folder: TempDir,
}

impl Small {
    async fn start() -> Self {
        begin();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let pool = root.join("pool");
        std::fs::create_dir(&pool).unwrap();
        let document = documents::hostpath_over_pool(&root, &pool).unwrap();
        let disk = SmallDisk::mount(&pool, POOL_BYTES).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            ..HostOptions::default()
        });
        let host = host.unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        Self {
            host,
            orchestrator,
            pool,
            disk: Some(disk),
            _folder: folder,
        }
    }

    fn disk(&self) -> &SmallDisk {
        self.disk.as_ref().unwrap()
    }

    /// A volume with a file system on it that is not in use.
    async fn used_before(&self, name: &str, content: &[u8]) -> Volume {
        let volume = KIND.created(&self.orchestrator, name).await.unwrap();
        KIND.set_up(&self.orchestrator, &volume).await.unwrap();
        KIND.write(&volume.target, content).unwrap();
        self.orchestrator.unpublish(&volume).await.unwrap();
        self.orchestrator.unstage(&volume).await.unwrap();
        volume
    }

    async fn back(&mut self) {
        self.host.restart().unwrap();
        self.orchestrator = self.host.orchestrator().await.unwrap();
    }

    /// What a failed stage must not leave.
    fn assert_not_staged(&self) {
        assert_eq!(self.host.mounts().unwrap(), Vec::<PathBuf>::new());
        let devices = loop_devices::backed_below(&self.pool).unwrap();
        assert!(devices.is_empty(), "{devices:?}");
    }

    /// Ends it.
    fn end(mut self) {
        let left = left_behind(&self.host, &self.pool).unwrap();
        assert!(left.is_empty(), "{left:#?}");
        self.host.terminate().unwrap();
        self.disk = None;
    }
}

#[tokio::test]
async fn privileged_a_full_pool_refuses_only_what_needs_space() {
    let small = Small::start().await;
    let orchestrator = &small.orchestrator;
    let content = random_bytes(1000);
    let volume = small.used_before("pvc", &content).await;
    let blank = KIND.created(orchestrator, "blank").await.unwrap();
    small.disk().fill().unwrap();
    let grow = || requests::expand(&volume.id, 2 * KIND.bytes());
    let clone = || copy(KIND, "clone", cloned(&volume.id));
    let refused = [
        code(&orchestrator.create(KIND.create("more")).await),
        code(&orchestrator.expand(grow()).await),
        code(&orchestrator.create(clone()).await),
        code(&snapshot(orchestrator, &volume.id, "taken").await),
    ];
    assert_eq!(refused, [Code::ResourceExhausted; 4]);
    // The image was promised, but its blocks are taken by what filled the disk outside of the pool.
    let formatted = orchestrator.stage_as(KIND.stage(&blank)).await;
    // All that mkfs learns of it is EIO; the host asks the disk.
    assert_eq!(code(&formatted), Code::ResourceExhausted, "{formatted:?}");
    small.assert_not_staged();
    orchestrator.is_known(&volume.id).await.unwrap();
    orchestrator.delete("unknown").await.unwrap();

    small.disk().free().unwrap();
    for name in ["more", "clone"] {
        let request = if name == "more" {
            KIND.create(name)
        } else {
            clone()
        };
        let id = orchestrator.create(request).await.unwrap().0;
        let made = orchestrator.place(name, id).unwrap();
        KIND.set_up(orchestrator, &made).await.unwrap();
        orchestrator.tear_down(&made).await.unwrap();
    }
    let taken = snapshot(orchestrator, &volume.id, "taken").await.unwrap();
    delete_snapshot(orchestrator, &taken).await.unwrap();
    orchestrator.expand(grow()).await.unwrap();
    KIND.set_up(orchestrator, &blank).await.unwrap();
    KIND.set_up(orchestrator, &volume).await.unwrap();
    assert_eq!(KIND.read(&volume.target, content.len()).unwrap(), content);
    orchestrator.tear_down(&blank).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    small.end();
}

#[tokio::test]
async fn privileged_a_volume_recovers_from_a_full_disk() {
    let small = Small::start().await;
    let orchestrator = &small.orchestrator;
    let content = random_bytes(1000);
    let much = random_bytes(MUCH);
    let volume = small.used_before("pvc", &content).await;
    KIND.set_up(orchestrator, &volume).await.unwrap();
    small.disk().fill().unwrap();
    // Into a file of its own: what was there before stays.
    let other = volume.target.join("other");
    std::fs::create_dir(&other).unwrap();
    KIND.write(&other, &much).unwrap_err();
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    small.assert_not_staged();
    small.disk().free().unwrap();
    KIND.set_up(orchestrator, &volume).await.unwrap();
    assert_eq!(KIND.read(&volume.target, content.len()).unwrap(), content);
    std::fs::remove_dir_all(&other).unwrap();
    KIND.write(&volume.target, &much).unwrap();
    assert!(KIND.read(&volume.target, much.len()).unwrap() == much);
    orchestrator.tear_down(&volume).await.unwrap();
    small.end();
}

#[tokio::test]
async fn privileged_a_read_only_pool_refuses_every_change() {
    let mut small = Small::start().await;
    let content = random_bytes(1000);
    let volume = small.used_before("pvc", &content).await;
    let blank = KIND.created(&small.orchestrator, "blank").await.unwrap();
    // The kernel makes nothing read-only that a process has open for writing.
    small.host.terminate().unwrap();
    small.disk().make_read_only().unwrap();
    small.back().await;
    let orchestrator = &small.orchestrator;
    let grow = || requests::expand(&volume.id, 2 * KIND.bytes());
    let clone = || copy(KIND, "clone", cloned(&volume.id));
    // EROFS is a fault of the node that a person must mend, wherever it shows. An image may be there in part after the open that failed, so
    // its creation is repeated.
    let table: [Row; 7] = [
        (
            "create",
            code(&orchestrator.create(KIND.create("more")).await),
            Code::Aborted,
        ),
        (
            "expand",
            code(&orchestrator.expand(grow()).await),
            Code::Internal,
        ),
        (
            "clone",
            code(&orchestrator.create(clone()).await),
            Code::Internal,
        ),
        (
            "snapshot",
            code(&snapshot(orchestrator, &volume.id, "taken").await),
            Code::Internal,
        ),
        (
            "delete",
            code(&orchestrator.delete(&volume.id).await),
            Code::Internal,
        ),
        (
            "format",
            code(&orchestrator.stage_as(KIND.stage(&blank)).await),
            Code::Internal,
        ),
        (
            "stage",
            code(&orchestrator.stage_as(KIND.stage(&volume)).await),
            Code::Internal,
        ),
    ];
    assert_codes(&table);
    small.assert_not_staged();
    small.host.terminate().unwrap();
    small.disk().make_writable().unwrap();
    small.back().await;
    let orchestrator = &small.orchestrator;
    orchestrator.expand(grow()).await.unwrap();
    let id = orchestrator.create(clone()).await.unwrap().0;
    orchestrator.delete(&id).await.unwrap();
    let taken = snapshot(orchestrator, &volume.id, "taken").await.unwrap();
    delete_snapshot(orchestrator, &taken).await.unwrap();
    for each in [&volume, &blank] {
        KIND.set_up(orchestrator, each).await.unwrap();
    }
    assert_eq!(KIND.read(&volume.target, content.len()).unwrap(), content);
    for each in [&volume, &blank] {
        orchestrator.tear_down(each).await.unwrap();
    }
    small.end();
}

/// Sold is sold: what images may grow to is taken from the capacity when they are made.
#[tokio::test]
async fn privileged_images_are_not_promised_more_than_there_is() {
    let small = Small::start().await;
    let orchestrator = &small.orchestrator;
    let available = orchestrator.capacity().await.unwrap();
    let mut request = Kind::Block.create("half");
    request.capacity_range = Some(requests::at_least(available / 2 + 1));
    let half = orchestrator.create(request.clone()).await.unwrap().0;
    request.name = "other-half".to_owned();
    let refused = orchestrator.create(request.clone()).await;
    assert_eq!(code(&refused), Code::ResourceExhausted, "{refused:?}");
    orchestrator.delete(&half).await.unwrap();
    let other = orchestrator.create(request).await.unwrap().0;
    orchestrator.delete(&other).await.unwrap();
    small.end();
}

//! SnapshotMetadata: what the streams say of a snapshot is compared with its bytes. Where blocks are shared and where they are copied, the
//! allocated ranges hold all data, and the changed ranges make the older snapshot into the newer one.

mod answers;

use crate::conformance::driver::Driver;
use answers::{Answer, allocated, applied, between, changed, of, ranges};
use rustix::fs::fallocate;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tonic::Code;
use wasmount_csi::wire::csi::v1::GetMetadataAllocatedRequest;
use wasmount_tests::copies::{begun_with, delete_snapshot, restored, snapshot};
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::orchestrator::{Volume, code, patiently};

/// What has blocks to tell of.
const KIND: Kind = Kind::Block;

/// Blocks in which snapshots are compared: of the file systems that pools lie on, in bytes.
const BLOCK: usize = 4096;

/// Where the volume is written first, with how many bytes; no whole blocks, and far from each other.
const FIRST: [(u64, usize); 4] = [
    (0, 64 << 10),
    (1 << 20, 2 * BLOCK),
    ((3 << 20) + 123, 777),
    (9 << 20, 1 << 20),
];

/// Where it is written afterwards: into what is there, beside it, and at its end.
const SECOND: [(u64, usize); 4] = [
    (100, 50),
    (5 << 20, 3 * BLOCK),
    ((9 << 20) + 8192, 2 * BLOCK),
    ((16 << 20) - 512, 512),
];

/// Entries of one answer, fewer than there are.
const FEW: i32 = 2;

/// Two snapshots of one volume, and what they hold.
struct Pair {
    volume: Volume,
    base: String,
    target: String,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Pair {
    async fn taken(driver: &Driver) -> Self {
        let orchestrator = &driver.orchestrator;
        let volume = KIND.created(orchestrator, "pvc").await.unwrap();
        KIND.set_up(orchestrator, &volume).await.unwrap();
        write(&volume.target, &FIRST);
        let base = taken(driver, &volume, "base").await;
        write(&volume.target, &SECOND);
        // The same bytes again are no change, and zeroes where there was nothing are none either.
        let device = File::options()
            .read(true)
            .write(true)
            .open(&volume.target)
            .unwrap();
        let mut same = vec![0; BLOCK];
        for offset in [1 << 20, 12 << 20] {
            device.read_exact_at(&mut same, offset).unwrap();
            device.write_all_at(&same, offset).unwrap();
        }
        // What is given back reads as zeroes.
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        fallocate(&device, flags, (9 << 20) + (512 << 10), 64 << 10).unwrap();
        device.sync_all().unwrap();
        let target = taken(driver, &volume, "target").await;
        let (before, after) = (content(driver, &base).await, content(driver, &target).await);
        Self {
            volume,
            base,
            target,
            before,
            after,
        }
    }

    async fn tear_down(self, driver: &Driver) {
        driver.orchestrator.tear_down(&self.volume).await.unwrap();
        for id in [self.base, self.target] {
            delete_snapshot(&driver.orchestrator, &id).await.unwrap();
        }
        driver.assert_nothing_left();
    }
}

async fn taken(driver: &Driver, volume: &Volume, name: &str) -> String {
    let orchestrator = &driver.orchestrator;
    let busy = &[Code::Aborted];
    patiently(busy, || snapshot(orchestrator, &volume.id, name))
        .await
        .unwrap()
}

fn write(device: &Path, places: &[(u64, usize)]) {
    let device = File::options().write(true).open(device).unwrap();
    for (offset, length) in places {
        device
            .write_all_at(&random_bytes(*length), *offset)
            .unwrap();
    }
    device.sync_all().unwrap();
}

/// Everything that a snapshot holds, as a pod sees it that restores it.
async fn content(driver: &Driver, snapshot: &str) -> Vec<u8> {
    let orchestrator = &driver.orchestrator;
    let restored = begun_with(orchestrator, KIND, "restored", restored(snapshot))
        .await
        .unwrap();
    let length = usize::try_from(KIND.bytes()).unwrap();
    let content = KIND.read(&restored.target, length).unwrap();
    orchestrator.tear_down(&restored).await.unwrap();
    content
}

/// All ranges of a stream.
fn in_order(answers: &[Answer], most: usize) -> Vec<(usize, usize)> {
    answers::joined(answers, KIND.bytes(), most)
}

async fn streams_tell_the_bytes(file_system: &str) {
    let driver = Driver::over(file_system).await;
    let pair = Pair::taken(&driver).await;
    let all = usize::MAX;

    let whole = in_order(&allocated(&driver, of(&pair.target)).await.unwrap(), all);
    let rebuilt = applied(vec![0; pair.after.len()], &whole, &pair.after);
    assert!(rebuilt == pair.after, "data lies outside of {whole:?}");
    let told: usize = whole.iter().map(|(_, size)| size).sum();
    assert!(
        told < pair.after.len() / 2,
        "{told} bytes of a volume that is nearly empty"
    );

    let delta = in_order(
        &changed(&driver, between(&pair.base, &pair.target))
            .await
            .unwrap(),
        all,
    );
    let made = applied(pair.before.clone(), &delta, &pair.after);
    assert!(made == pair.after, "a change lies outside of {delta:?}");
    for (offset, size) in &delta {
        for block in (*offset..offset + size).step_by(BLOCK) {
            let end = (block + BLOCK).min(offset + size);
            let same = pair.before[block..end] == pair.after[block..end];
            assert!(!same, "nothing changed at {block}, within {delta:?}");
        }
    }
    let back = in_order(
        &changed(&driver, between(&pair.target, &pair.base))
            .await
            .unwrap(),
        all,
    );
    assert!(applied(pair.after.clone(), &back, &pair.before) == pair.before);
    let none = changed(&driver, between(&pair.base, &pair.base))
        .await
        .unwrap();
    assert!(none.iter().all(|it| it.ranges.is_empty()));

    let few = usize::try_from(FEW).unwrap();
    let mut paged = of(&pair.target);
    paged.max_results = FEW;
    assert_eq!(
        in_order(&allocated(&driver, paged).await.unwrap(), few),
        whole
    );
    let mut paged = between(&pair.base, &pair.target);
    paged.max_results = FEW;
    assert_eq!(
        in_order(&changed(&driver, paged).await.unwrap(), few),
        delta
    );

    // As a client goes on whose connection broke.
    let from = whole[whole.len() / 2].0;
    let mut rest = of(&pair.target);
    rest.starting_offset = i64::try_from(from).unwrap();
    let rest = in_order(&allocated(&driver, rest).await.unwrap(), all);
    assert_eq!(rest, whole[whole.len() / 2..]);
    let from = delta[delta.len() / 2].0;
    let mut rest = between(&pair.base, &pair.target);
    rest.starting_offset = i64::try_from(from).unwrap();
    let rest = in_order(&changed(&driver, rest).await.unwrap(), all);
    assert_eq!(rest, delta[delta.len() / 2..]);
    pair.tear_down(&driver).await;
}

#[tokio::test]
async fn privileged_snapshot_blocks_are_reported_on_xfs() {
    streams_tell_the_bytes("xfs").await;
}

#[tokio::test]
async fn privileged_snapshot_blocks_are_reported_on_btrfs() {
    streams_tell_the_bytes("btrfs").await;
}

#[tokio::test]
async fn privileged_snapshot_blocks_are_reported_on_ext4_copies() {
    streams_tell_the_bytes("ext4").await;
}

#[tokio::test]
async fn privileged_a_client_of_a_stream_may_leave_and_may_be_slow() {
    let driver = Driver::over("xfs").await;
    let orchestrator = &driver.orchestrator;
    let pair = Pair::taken(&driver).await;
    let whole = in_order(
        &allocated(&driver, of(&pair.target)).await.unwrap(),
        usize::MAX,
    );
    let one_by_one = GetMetadataAllocatedRequest {
        max_results: 1,
        ..of(&pair.target)
    };
    let mut client = driver.clients().snapshot_metadata;
    let begun = client.get_metadata_allocated(one_by_one.clone()).await;
    let mut left = begun.unwrap().into_inner();
    assert!(left.message().await.unwrap().is_some());
    drop(left);

    let begun = client.get_metadata_allocated(one_by_one).await;
    let mut slow = begun.unwrap().into_inner();
    let mut told = ranges(slow.message().await.unwrap().unwrap().block_metadata);
    // Meanwhile no call waits for it: not even the deletion of the other snapshot.
    let other = KIND.created(orchestrator, "other").await.unwrap();
    KIND.set_up(orchestrator, &other).await.unwrap();
    orchestrator.tear_down(&other).await.unwrap();
    delete_snapshot(orchestrator, &pair.base).await.unwrap();
    while let Some(answer) = slow.message().await.unwrap() {
        told.extend(ranges(answer.block_metadata));
    }
    assert_eq!(told, whole);
    pair.tear_down(&driver).await;
}

#[tokio::test]
async fn privileged_unknown_snapshot_metadata_is_rejected() {
    let driver = Driver::over("xfs").await;
    let orchestrator = &driver.orchestrator;
    let pair = Pair::taken(&driver).await;
    let other = KIND.created(orchestrator, "other").await.unwrap();
    let of_other = taken(&driver, &other, "of-other").await;
    let directory = Kind::Directory
        .created(orchestrator, "directory")
        .await
        .unwrap();
    let of_directory = taken(&driver, &directory, "of-directory").await;
    let at = |starting_offset| GetMetadataAllocatedRequest {
        starting_offset,
        ..of(&pair.target)
    };
    let size = KIND.bytes();
    for (what, request, expected) in [
        ("no id", of(""), Code::InvalidArgument),
        ("an unknown snapshot", of("unknown"), Code::NotFound),
        ("a volume", of(&pair.volume.id), Code::NotFound),
        ("a directory", of(&of_directory), Code::InvalidArgument),
        ("before the beginning", at(-1), Code::OutOfRange),
        ("behind the end", at(size + 1), Code::OutOfRange),
        ("all of it", of(&pair.target), Code::Ok),
    ] {
        let answer = allocated(&driver, request).await;
        assert_eq!(code(&answer.map(drop)), expected, "{what}");
    }
    let (base, target) = (pair.base.as_str(), pair.target.as_str());
    for (what, base, target, expected) in [
        ("no base", "", target, Code::InvalidArgument),
        ("no target", base, "", Code::InvalidArgument),
        ("an unknown base", "unknown", target, Code::NotFound),
        ("an unknown target", base, "unknown", Code::NotFound),
        ("of two volumes", &of_other, target, Code::InvalidArgument),
    ] {
        let answer = changed(&driver, between(base, target)).await;
        assert_eq!(code(&answer.map(drop)), expected, "{what}");
    }
    for id in [&of_other, &of_directory] {
        delete_snapshot(orchestrator, id).await.unwrap();
    }
    for volume in [&other, &directory] {
        orchestrator.tear_down(volume).await.unwrap();
    }
    pair.tear_down(&driver).await;
}

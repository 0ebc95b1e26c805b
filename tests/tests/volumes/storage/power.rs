//! The power goes: store and pool lie on a disk that loses all it has not been made to keep, in the middle of the lives of many volumes.
//! What was answered is there afterwards, down to the bytes that pods had synced; what was deleted does not come back.

use crate::storage::{assert_nothing_left, begin, options};
use fastrand::Rng;
use std::fs;
use std::io::{Write, stderr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};
use wasmount_core::names::DriverName;
use wasmount_core::state::{Expect, Keyspace, KeyspaceOwner, StateStore};
use wasmount_state::RedbStore;
use wasmount_tests::host::Host;
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::leaks::hostpath_pool;
use wasmount_tests::loop_devices;
use wasmount_tests::loop_disk::LoopDisk;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code, patiently};
use wasmount_tests::seed::seeded;
use xtask::mountinfo::unmount_below;

/// Times that the power goes; more often while a kind has not shown both that it stays and that it is gone.
const ROUNDS: usize = 10;

/// Times after which a kind that has not shown it never will, however busy the machine is.
const MOST_ROUNDS: usize = 40;

/// Lives side by side.
const AT_ONCE: usize = 8;

/// Of the disk, in bytes: what all images of a round are promised. The file behind it is sparse.
const DISK_BYTES: u64 = 32 << 30;

/// Steps of lives until the power goes, at most: three lives of each lane, on a slow machine too.
const MOST_STEPS: u64 = 3 * 5 * AT_ONCE as u64;

/// Time between the last of these steps and the power cut, in milliseconds, at most: as long as a call, so that it is in the middle of others.
const LONGEST_CALL: u64 = 50;

/// Time for all steps on the busiest machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// What a pod writes: a few blocks.
const BYTES: usize = 20_000;

/// What is known of a volume when the power went.
struct Witness {
    kind: Kind,
    name: String,
    volume: Volume,
    /// Its creation was answered.
    is_created: bool,
    /// What its pod had synced.
    content: Option<Vec<u8>>,
    deletion: Deletion,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Deletion {
    NotAsked,
    NotAnswered,
    Done,
}

/// What of a witness came to be seen after the power cut. Kinds stand in it as often as they were seen.
#[derive(Debug, Default)]
struct Seen {
    /// Deleted before, and gone.
    deleted: Vec<Kind>,
    /// Written before, and the same byte by byte.
    compared: Vec<Kind>,
}

impl Seen {
    /// Every kind was seen both ways.
    fn is_whole(&self) -> bool {
        let mut kinds = Kind::ALL.iter();
        kinds.all(|kind| self.deleted.contains(kind) && self.compared.contains(kind))
    }
}

impl Witness {
    /// Lives until a call fails. Every second volume is deleted in the end, the others are let go of.
    async fn live(
        &mut self,
        orchestrator: &Orchestrator,
        is_deleted: bool,
        steps: &Semaphore,
    ) -> Result<(), Status> {
        let request = self.kind.create(&self.name);
        self.volume.id = orchestrator.create(request).await?.0;
        self.is_created = true;
        steps.add_permits(1);
        self.kind.set_up(orchestrator, &self.volume).await?;
        steps.add_permits(1);
        let content = random_bytes(BYTES);
        self.kind
            .write(&self.volume.target, &content)
            .map_err(|error| Status::data_loss(error.to_string()))?;
        self.content = Some(content);
        orchestrator.unpublish(&self.volume).await?;
        steps.add_permits(1);
        orchestrator.unstage(&self.volume).await?;
        steps.add_permits(1);
        if is_deleted {
            self.deletion = Deletion::NotAnswered;
            orchestrator.delete(&self.volume.id).await?;
            self.deletion = Deletion::Done;
            steps.add_permits(1);
        }
        Ok(())
    }

    /// Checks that what was answered is true, and deletes it.
    async fn check(mut self, orchestrator: &Orchestrator, seen: &mut Seen) {
        let what = format!("{:?} {}", self.kind, self.name);
        let busy = &[Code::Aborted];
        if !self.is_created {
            let request = self.kind.create(&self.name);
            let created = patiently(busy, || orchestrator.create(request.clone())).await;
            self.volume.id = created.unwrap_or_else(|it| panic!("{what}: {it:?}")).0;
        }
        let known = orchestrator.is_known(&self.volume.id).await;
        match (self.deletion, code(&known)) {
            (Deletion::Done, Code::NotFound) => seen.deleted.push(self.kind),
            (Deletion::NotAnswered, Code::Ok | Code::NotFound) => {}
            (Deletion::NotAsked, Code::Ok) => {
                let used = patiently(busy, || self.kind.set_up(orchestrator, &self.volume)).await;
                used.unwrap_or_else(|it| panic!("{what} is not usable: {it:?}"));
                if let Some(content) = &self.content {
                    let found = self.kind.read(&self.volume.target, content.len());
                    let found = found.unwrap_or_else(|it| panic!("{what}: {it}"));
                    assert!(found == *content, "{what} lost what was synced");
                    seen.compared.push(self.kind);
                }
            }
            (_, other) => panic!("{what}: {other:?}"),
        }
        let torn_down = orchestrator.tear_down_beside_others(&self.volume).await;
        torn_down.unwrap_or_else(|it| panic!("{what}: {it:?}"));
    }
}

/// Lives one volume after the other until the power goes, and counts their steps; gives all of them.
async fn lives(
    orchestrator: Orchestrator,
    lane: usize,
    name: String,
    steps: Arc<Semaphore>,
) -> Vec<Witness> {
    let mut seen = Vec::new();
    for (number, kind) in Kind::ALL.into_iter().cycle().skip(lane).enumerate() {
        let name = format!("{name}-{number}");
        let mut witness = Witness {
            volume: orchestrator.place(&name, String::new()).unwrap(),
            kind,
            name,
            is_created: false,
            content: None,
            deletion: Deletion::NotAsked,
        };
        let lived = witness.live(&orchestrator, number % 2 == 0, &steps).await;
        seen.push(witness);
        if lived.is_err() {
            break;
        }
    }
    seen
}

/// What a node forgets without power: mounts, loop devices, what is in memory. The files of kubelet's directory stay.
fn forget(host: &Host, disk: &LoopDisk) {
    unmount_below(&host.kubelet()).unwrap();
    loop_devices::detach_below(&host.data()).unwrap();
    fs::remove_dir_all(host.run()).unwrap();
    fs::create_dir(host.run()).unwrap();
    disk.power_up().unwrap();
}

/// Waits until some steps were answered, and then into the next ones.
async fn wait_for_some(steps: &Semaphore, random: &mut Rng) {
    let some = u32::try_from(random.u64(..MOST_STEPS)).unwrap();
    let answered = timeout(DEADLINE, steps.acquire_many(some)).await;
    answered.expect("lives went on").unwrap().forget();
    sleep(Duration::from_millis(random.u64(..LONGEST_CALL))).await;
}

#[tokio::test]
async fn privileged_a_power_cut_under_load_loses_nothing() {
    begin();
    let mut host = Host::start(options()).unwrap();
    host.terminate().unwrap();
    let disk = LoopDisk::mount(&host.data(), DISK_BYTES).unwrap();
    host.restart().unwrap();
    let (mut round, mut seen, mut random) = (0, Seen::default(), seeded().unwrap());
    while round < ROUNDS || !seen.is_whole() {
        assert!(round < MOST_ROUNDS, "not every kind was seen: {seen:?}");
        let (mut running, steps) = (JoinSet::new(), Arc::new(Semaphore::new(0)));
        for lane in 0..AT_ONCE {
            let orchestrator = host.orchestrator().await.unwrap();
            let name = format!("pvc-{round}-{lane}");
            running.spawn(lives(orchestrator, lane, name, Arc::clone(&steps)));
        }
        wait_for_some(&steps, &mut random).await;
        disk.cut_power().unwrap();
        host.kill_9().unwrap();
        // Pods have files open until then.
        let witnesses = running.join_all().await;
        forget(&host, &disk);
        host.restart().unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        for witness in witnesses.into_iter().flatten() {
            let (id, is_gone) = (
                witness.volume.id.clone(),
                witness.deletion == Deletion::Done,
            );
            if is_gone {
                let image = hostpath_pool(&host).join(&id);
                assert!(!image.exists(), "{} came back", witness.name);
            }
            witness.check(&orchestrator, &mut seen).await;
        }
        assert_nothing_left(&host);
        round += 1;
    }
    host.terminate().unwrap();
    drop(disk);
}

/// Not a bar, so it is only told, past the runner that keeps what a passing test prints: how long a host with many volumes takes to come back.
#[tokio::test]
async fn privileged_a_store_of_100_000_records_opens_after_power_cut() {
    const RECORDS: usize = 100_000;
    /// Bytes of a record: more than any of hostpath's.
    const RECORD: usize = 400;
    begin();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let disk = LoopDisk::mount(&path, DISK_BYTES).unwrap();
    let space = Keyspace {
        driver: DriverName::parse("hostpath.wasmount.io").unwrap(),
        owner: KeyspaceOwner::Backend,
    };
    let store = RedbStore::open(&path).unwrap();
    for number in 0..RECORDS {
        let (key, value) = (format!("volume-{number:06}"), vec![b'x'; RECORD]);
        store
            .put(&space, &key, value, Expect::Absent)
            .await
            .unwrap();
    }
    store.sync().await.unwrap();
    disk.cut_power().unwrap();
    drop(store);
    disk.power_up().unwrap();
    let start = Instant::now();
    let store = RedbStore::open(&path).unwrap();
    let opened = start.elapsed();
    let last = format!("volume-{:06}", RECORDS - 1);
    let record = store.get(&space, &last).await.unwrap();
    assert_eq!(record.unwrap().value.len(), RECORD);
    let line = format!(
        "store of {RECORDS} records opens in {} ms\n",
        opened.as_millis()
    );
    stderr().write_all(line.as_bytes()).unwrap();
    drop(store);
    drop(disk);
}

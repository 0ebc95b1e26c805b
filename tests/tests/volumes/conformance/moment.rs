//! A snapshot of what is being written holds one moment. A pod counts in two places in turn and syncs each step, so at every moment the two
//! differ by one at most; whatever is restored must say the same.

use crate::conformance::driver::Driver;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::time::sleep;
use tonic::Code;
use wasmount_tests::copies::{begun_with, delete_snapshot, restored, snapshot};
use wasmount_tests::kinds::Kind;
use wasmount_tests::orchestrator::{code, patiently};

/// Snapshots that are taken while it counts.
const SNAPSHOTS: usize = 4;

/// Steps that the count must have gone before the first and between two.
const STEPS: u64 = 20;

/// Where the second counter stands, in bytes: far from the first.
const SECOND: u64 = 8 << 20;

/// Between two looks at the counter.
const LOOK: Duration = Duration::from_millis(1);

/// Counts until it is stopped.
struct Counting {
    is_over: Arc<AtomicBool>,
    steps: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<()>>,
}

/// The two places of a volume, as a pod sees them.
fn places(kind: Kind, at: &Path) -> [(PathBuf, u64); 2] {
    match kind {
        Kind::Block => [0, SECOND].map(|offset| (at.to_owned(), offset)),
        _ => ["first", "second"].map(|name| (at.join(name), 0)),
    }
}

fn count(places: &[(PathBuf, u64); 2], is_over: &AtomicBool, steps: &AtomicU64) -> io::Result<()> {
    let open = |(path, offset): &(PathBuf, u64)| {
        let file = File::options()
            .write(true)
            .create(!path.exists())
            .truncate(false)
            .open(path)?;
        Ok::<_, io::Error>((file, *offset))
    };
    let files = [open(&places[0])?, open(&places[1])?];
    for number in 1_u64.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        for (file, offset) in &files {
            file.write_all_at(&number.to_le_bytes(), *offset)?;
            file.sync_all()?;
        }
        steps.store(number, Ordering::Relaxed);
    }
    Ok(())
}

impl Counting {
    fn begin(kind: Kind, at: &Path) -> Self {
        let (is_over, steps) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let places = places(kind, at);
        let (over, at_step) = (Arc::clone(&is_over), Arc::clone(&steps));
        let thread = thread::spawn(move || count(&places, &over, &at_step));
        Self {
            is_over,
            steps,
            thread,
        }
    }

    /// Waits until it has gone on.
    async fn goes_on(&self) {
        let from = self.steps.load(Ordering::Relaxed);
        while self.steps.load(Ordering::Relaxed) < from + STEPS {
            assert!(!self.thread.is_finished(), "it cannot write any more");
            sleep(LOOK).await;
        }
    }

    /// The last step.
    fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap().unwrap();
        self.steps.load(Ordering::Relaxed)
    }
}

/// Both counters.
fn read(kind: Kind, at: &Path) -> [u64; 2] {
    places(kind, at).map(|(path, offset)| {
        let mut bytes = [0; 8];
        File::open(path)
            .unwrap()
            .read_exact_at(&mut bytes, offset)
            .unwrap();
        u64::from_le_bytes(bytes)
    })
}

/// Takes snapshots of what is being counted, and looks at each. Those that could not be of one moment may be refused where that is allowed.
async fn holds_one_moment(kind: Kind, file_system: &str, may_be_refused: bool) {
    let driver = Driver::over(file_system).await;
    let orchestrator = &driver.orchestrator;
    let volume = kind.created(orchestrator, "pvc").await.unwrap();
    kind.set_up(orchestrator, &volume).await.unwrap();
    let counting = Counting::begin(kind, &volume.target);
    let mut taken = Vec::new();
    for number in 0..SNAPSHOTS {
        counting.goes_on().await;
        let at_least = counting.steps.load(Ordering::Relaxed);
        let name = format!("taken-{number}");
        let busy = &[Code::Aborted];
        match patiently(busy, || snapshot(orchestrator, &volume.id, &name)).await {
            Ok(id) => taken.push((id, at_least)),
            refused => {
                let allowed = may_be_refused && code(&refused) == Code::FailedPrecondition;
                assert!(allowed, "{refused:?}");
            }
        }
    }
    counting.goes_on().await;
    assert!(may_be_refused || taken.len() == SNAPSHOTS);
    // Of what stands still there is always one to look at.
    let at_least = counting.end();
    let last = snapshot(orchestrator, &volume.id, "last").await.unwrap();
    taken.push((last, at_least));
    for (number, (id, at_least)) in taken.iter().enumerate() {
        let name = format!("restored-{number}");
        let restored = begun_with(orchestrator, kind, &name, restored(id))
            .await
            .unwrap();
        let [first, second] = read(kind, &restored.target);
        assert!(
            first == second || first == second + 1,
            "{first} and {second}"
        );
        assert!(
            second >= *at_least,
            "{second}, but {at_least} was there before"
        );
        orchestrator.tear_down(&restored).await.unwrap();
        delete_snapshot(orchestrator, id).await.unwrap();
    }
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_snapshot_of_an_ext4_in_use_is_consistent() {
    holds_one_moment(Kind::Filesystem("ext4"), "xfs", false).await;
}

#[tokio::test]
async fn privileged_a_snapshot_of_an_xfs_in_use_is_consistent() {
    holds_one_moment(Kind::Filesystem("xfs"), "btrfs", false).await;
}

#[tokio::test]
async fn privileged_a_snapshot_of_a_device_in_use_is_consistent() {
    holds_one_moment(Kind::Block, "xfs", false).await;
}

#[tokio::test]
async fn privileged_a_full_copy_in_use_is_consistent_or_refused() {
    holds_one_moment(Kind::Filesystem("ext4"), "ext4", true).await;
}

#[tokio::test]
async fn privileged_a_directory_copy_in_use_is_consistent_or_refused() {
    holds_one_moment(Kind::Directory, "xfs", true).await;
}

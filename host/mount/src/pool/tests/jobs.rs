//! Copies as jobs: which call joins which, which error each receives, and how many of a driver's threads they use.

use super::*;
use crate::pool::copies;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use tokio::runtime::Handle;
use wasmount_core::names::DriverName;

const MIB: u64 = 1 << 20;
/// Time in which anything without disk access must have happened.
const SOON: Duration = Duration::from_millis(200);
/// How long a test waits for what must happen. It is generous because other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// One thread for copies, two for other calls.
fn threads() -> Threads {
    Threads::new(&DriverName::parse("a").unwrap(), 2)
}

fn place(path: &str) -> Place {
    Place::parse("data", path).unwrap()
}

/// A fixture with the image `a`, and a running copy of it to `b` that another call started.
fn under_way() -> (Fixture, Claim) {
    let fixture = Fixture::with(true);
    fixture.done(create_image("a", MIB));
    let pool = fixture.pools.open("data").unwrap();
    let (claim, waiting) =
        copies::begin(&pool.copies, &CopyRequest::Image(to_be_copied("a", "b"))).unwrap();
    drop(waiting);
    (fixture, claim.unwrap())
}

fn serve(
    fixture: &Fixture,
    threads: &Threads,
    call: PoolCall,
) -> tokio::task::JoinHandle<Result<PoolReply, MountError>> {
    let (pools, threads) = (Arc::clone(&fixture.pools), threads.clone());
    tokio::spawn(async move { pools.serve(&threads, call).await })
}

/// Occupies the only thread for copies until the first returned value is dropped; then its job reports that.
async fn take_the_thread(
    threads: &Threads,
) -> (
    std::sync::mpsc::Sender<()>,
    tokio::task::JoinHandle<Result<bool, MountError>>,
) {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let threads = threads.clone();
    let job = move || {
        begun.send(()).unwrap();
        Ok(wait.recv().is_err())
    };
    let busy = tokio::spawn(async move { threads.copies.run(job).await });
    has_begun.await.unwrap();
    (release, busy)
}

fn full() -> MountError {
    MountError::no_space("b", "the disk is full")
}

#[tokio::test]
async fn a_call_for_a_running_copy_gets_its_result() {
    let (fixture, claim) = under_way();
    let threads = threads();
    let joined: Vec<_> = (0..16)
        .map(|_| serve(&fixture, &threads, clone_image("a", "b")))
        .collect();
    tokio::time::sleep(SOON).await;
    assert!(joined.iter().all(|call| !call.is_finished()));
    // They wait without occupying a thread.
    assert_eq!(threads.copies.run(|| Ok(1)).await, Ok(1));
    assert_eq!(threads.pool.run(|| Ok(2)).await, Ok(2));
    claim.end(Ok(()));
    for call in joined {
        assert_eq!(call.await.unwrap(), Ok(PoolReply::Done));
    }
}

#[tokio::test]
async fn an_error_is_returned_to_all_waiting_calls() {
    let (fixture, claim) = under_way();
    let threads = threads();
    let joined: Vec<_> = (0..3)
        .map(|_| serve(&fixture, &threads, clone_image("a", "b")))
        .collect();
    tokio::time::sleep(SOON).await;
    claim.end(Err(full()));
    for call in joined {
        assert_eq!(call.await.unwrap(), Err(full()));
    }
    let again = serve(&fixture, &threads, clone_image("a", "b")).await;
    assert_eq!(again.unwrap(), Ok(PoolReply::Done));
    assert!(fixture.stat("b").is_some());
}

#[tokio::test]
async fn an_unread_error_is_returned_once_to_the_next_call() {
    let (fixture, claim) = under_way();
    let threads = threads();
    claim.end(Err(full()));
    let next = serve(&fixture, &threads, clone_image("a", "b")).await;
    assert_eq!(next.unwrap(), Err(full()));
    let again = serve(&fixture, &threads, clone_image("a", "b")).await;
    assert_eq!(again.unwrap(), Ok(PoolReply::Done));
}

#[tokio::test]
async fn an_error_is_not_returned_for_another_copy() {
    let (fixture, claim) = under_way();
    fixture.done(create_image("other", MIB));
    claim.end(Err(full()));
    let other = serve(&fixture, &threads(), clone_image("other", "b")).await;
    assert_eq!(other.unwrap(), Ok(PoolReply::Done));
}

#[tokio::test]
async fn another_copy_to_the_same_place_is_refused_meanwhile() {
    let (fixture, claim) = under_way();
    fixture.done(create_image("other", MIB));
    fixture.done(create("tree"));
    for call in [clone_image("other", "b"), clone_directory("tree", "b")] {
        let other = serve(&fixture, &threads(), call).await.unwrap();
        assert!(other.clone().unwrap_err().to_string().contains("under way"));
        assert_eq!(kind(other), "otherwise there");
    }
    claim.end(Ok(()));
}

#[tokio::test]
async fn a_long_wait_ends_as_under_way() {
    let (fixture, claim) = under_way();
    let pool = fixture.pools.open("data").unwrap();
    let (none, waiting) =
        copies::begin(&pool.copies, &CopyRequest::Image(to_be_copied("a", "b"))).unwrap();
    assert!(none.is_none());
    let told = waiting.outcome(Duration::from_millis(10)).await;
    assert!(matches!(told, Err(MountError::UnderWay { .. })));
    claim.end(Ok(()));
}

#[tokio::test]
async fn a_copy_that_was_given_up_does_not_keep_its_place() {
    let (fixture, claim) = under_way();
    let joined = serve(&fixture, &threads(), clone_image("a", "b"));
    tokio::time::sleep(SOON).await;
    drop(claim);
    let told = joined.await.unwrap();
    assert!(matches!(told, Err(MountError::Unreachable { .. })));
    fixture.done(clone_image("a", "b"));
}

#[tokio::test]
async fn a_copy_goes_on_when_its_caller_is_gone() {
    let fixture = Fixture::with(true);
    fixture.done(create_image("a", 64 * MIB));
    std::fs::write(fixture.path("a"), vec![7; 64 << 20]).unwrap();
    let threads = threads();
    // A started copy is a separate task, and without a thread it cannot end before its caller is gone.
    let (release, busy) = take_the_thread(&threads).await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let begun = async {
        while tasks() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let call = fixture.pools.clone().serve(&threads, clone_image("a", "b"));
    tokio::select! {
        ended = call => panic!("{ended:?}"),
        begun = tokio::time::timeout(PATIENCE, begun) => begun.unwrap(),
    }
    assert_eq!(fixture.stat("b"), None);
    drop(release);
    assert_eq!(busy.await.unwrap(), Ok(true));
    for _ in 0..1000 {
        if fixture.stat("b").is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let copy = std::fs::read(fixture.path("b")).unwrap();
    assert!(copy == vec![7; 64 << 20]);
    let again = serve(&fixture, &threads, clone_image("a", "b")).await;
    assert_eq!(again.unwrap(), Ok(PoolReply::Done));
}

#[tokio::test]
async fn a_copy_that_is_done_is_found_without_a_thread_for_copies() {
    let fixture = Fixture::with(true);
    fixture.done(create_image("a", MIB));
    fixture.done(clone_image("a", "b"));
    let threads = threads();
    let (release, busy) = take_the_thread(&threads).await;
    let found = serve(&fixture, &threads, clone_image("a", "b")).await;
    assert_eq!(found.unwrap(), Ok(PoolReply::Done));
    drop(release);
    assert_eq!(busy.await.unwrap(), Ok(true));
}

#[test]
fn neither_end_of_a_running_copy_is_removed() {
    let (fixture, claim) = under_way();
    assert_eq!(kind(fixture.call(remove_image("a"))), "in use");
    assert_eq!(kind(fixture.call(rename("a", "c"))), "in use");
    assert_eq!(kind(fixture.call(remove_image("b"))), "under way");
    claim.end(Err(full()));
    fixture.done(remove_image("b"));
    fixture.done(remove_image("a"));
}

#[test]
fn what_is_being_removed_is_not_copied() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    let pool = fixture.pools.open("data").unwrap();
    let leaving = pool.copies.leave(&place("a")).unwrap();
    assert_eq!(kind(fixture.call(clone_directory("a", "b"))), "in use");
    drop(leaving);
    fixture.done(clone_directory("a", "b"));
}

#[test]
fn an_image_that_is_written_to_is_never_copied_torn() {
    let fixture = Fixture::with(true);
    // If the file system shares blocks, the copy is atomic in any case.
    let bytes = 32 * MIB;
    fixture.done(create_image("a", bytes));
    let image = std::fs::File::options()
        .write(true)
        .open(fixture.path("a"))
        .unwrap();
    image.write_all_at(&vec![1; 32 << 20], 0).unwrap();
    let is_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The first block is always written before the last one: a copy with a newer last block would be torn.
        scope.spawn(|| {
            let mut count = 1_u64;
            while !is_ended.load(Ordering::Relaxed) {
                count += 1;
                image.write_all_at(&count.to_le_bytes(), 0).unwrap();
                image.write_all_at(&count.to_le_bytes(), bytes - 8).unwrap();
            }
        });
        let _end = EndsOnDrop(&is_ended);
        for i in 0..10 {
            let name = format!("copy-{i}");
            match kind(fixture.call(clone_image("a", &name))) {
                "ok" => {
                    let copy = std::fs::read(fixture.path(&name)).unwrap();
                    let (first, last) = (&copy[..8], &copy[copy.len() - 8..]);
                    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
                    assert!(number(first) - number(last) <= 1);
                }
                refused => {
                    assert_eq!(refused, "in use");
                    assert_eq!(fixture.stat(&name), None);
                }
            }
        }
    });
    fixture.done(clone_image("a", "copy"));
    fixture.wait_until_clear();
}

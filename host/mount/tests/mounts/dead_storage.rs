//! Storage that does not answer, or is gone: a FUSE file system whose server is this test and never answers.

use crate::bench::*;
use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::fs::{self, File};
use std::future::Future;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use wasmount_core::mounter::StatVolume;

/// How long the mounter waits for an answer of storage that hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Mounts it. While the connection is open every request waits; then the requests fail with ENOTCONN.
pub(crate) fn mount_dead_storage(path: &Path) -> File {
    let connection = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .expect("this test needs /dev/fuse");
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0",
        connection.as_raw_fd()
    );
    let options = CString::new(options).unwrap();
    rustix::mount::mount(
        "dead",
        path,
        "fuse",
        rustix::mount::MountFlags::empty(),
        Some(options.as_c_str()),
    )
    .unwrap();
    connection
}

/// Replaces the storage of a published volume by dead storage, as if its server had died.
async fn published_from_dead_storage(bench: Bench) -> (Bench, File) {
    bench.in_use("v").await;
    let target = bench.target("v");
    let inode = fs::metadata(&target).unwrap().ino();
    take_off(&target);
    let connection = mount_dead_storage(&target);
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.contains(" dead ")).unwrap();
    let minor = line.split([' ', ':']).nth(3).unwrap();
    let file = bench.journal_files().remove(0);
    let text = fs::read_to_string(&file).unwrap();
    let (stage, targets) = text.split_once("\"targets\"").unwrap();
    let (before, after) = targets.split_once("\"identity\":{").unwrap();
    let (_, after) = after.split_once('}').unwrap();
    assert!(targets.contains(&format!("\"inode\":{inode}")));
    let identity = format!("\"device_major\":0,\"device_minor\":{minor},\"inode\":1");
    let text = format!("{stage}\"targets\"{before}\"identity\":{{{identity}}}{after}");
    fs::write(&file, text).unwrap();
    (bench.restarted(), connection)
}

fn request(bench: &Bench) -> StatVolume {
    StatVolume {
        key: key("v"),
        volume_path: node_path(&bench.target("v")),
        staging_path: None,
    }
}

/// The outcome of a call that does not wait for an answer of the storage.
async fn at_once<T>(call: impl Future<Output = T>) -> T {
    let asked = Instant::now();
    let answer = call.await;
    let took = asked.elapsed();
    assert!(took < ANSWER_WITHIN, "it waited for the storage: {took:?}");
    answer
}

#[test]
fn privileged_hung_storage_is_torn_down_after_two_seconds() {
    privileged(async |bench| {
        let (bench, connection) = published_from_dead_storage(bench).await;
        let request = request(&bench);
        assert_eq!(variant(bench.mounter.stats(request.clone()).await), "Hung");
        let asked = Instant::now();
        for _ in 0..100 {
            let again = bench.mounter.stats(request.clone()).await;
            assert_eq!(variant(again), "Hung");
        }
        // Each new query would take two seconds.
        assert!(asked.elapsed() < Duration::from_secs(20));
        // The hanging thread keeps the mount busy.
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
        drop(connection);
    });
}

#[test]
fn privileged_hung_storage_in_use_is_torn_down() {
    privileged(async |bench| {
        let (bench, connection) = published_from_dead_storage(bench).await;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let user = rustix::fs::open(bench.target("v"), flags, Mode::empty()).unwrap();
        let patience = Duration::from_secs(5);
        tokio::time::timeout(patience, bench.unpublish("v", "v"))
            .await
            .expect("the tear-down asks with a deadline")
            .unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
        drop((user, connection));
    });
}

#[test]
fn privileged_a_corrupted_mount_in_use_is_torn_down() {
    privileged(async |bench| {
        let (bench, connection) = published_from_dead_storage(bench).await;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let user = rustix::fs::open(bench.target("v"), flags, Mode::empty()).unwrap();
        drop(connection);
        assert_eq!(
            variant(bench.mounter.stats(request(&bench)).await),
            "Kernel"
        );
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
        drop(user);
    });
}

#[test]
fn privileged_hung_storage_delays_no_other_call() {
    privileged(async |bench| {
        let (bench, connection) = published_from_dead_storage(bench).await;
        assert_eq!(variant(at_once(bench.unstage("v")).await), "InUse");
        at_once(bench.publish("v", "other")).await.unwrap();
        at_once(bench.unpublish("v", "other")).await.unwrap();
        let unsettled = at_once(bench.mounter.unsettled(driver())).await;
        assert_eq!(unsettled, Ok(Vec::new()));
        at_once(bench.unpublish("v", "v")).await.unwrap();
        at_once(bench.unstage("v")).await.unwrap();
        bench.assert_clean();
        drop(connection);
    });
}

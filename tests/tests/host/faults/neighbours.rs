//! Other processes: a second host, one that was killed before, a signal to stop, an administrator who mounted something
//! read-only.

use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};
use tonic::Code;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{directory_pool, left_behind};
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, code};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use wasmount_tests::small_disk::SmallDisk;
use wasmount_tests::strace::Strace;
use xtask::served::{ServeOptions, Served};

/// How long a line of the log may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(10);

/// What a second host says.
const WAITING: &str = "waiting for the other host that uses the data directory";

/// How long a call is made to take that SIGTERM finds under way: longer than the host needs on a busy machine to receive the signal.
const SLOW: Duration = Duration::from_secs(3);

/// How long a host may take until it does what is expected.
const LONGEST: Duration = Duration::from_secs(30);

/// Pause between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONGEST, "not in time: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// A second host's command line: the same but for its own run and socket directories, and its own log.
fn second(host: &mut Host) -> ServeOptions {
    let root = host.root().to_owned();
    let own = |name: &str| {
        let path = root.join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (run, sockets, log) = (
        own("second-run"),
        own("second-sockets"),
        root.join("second.log"),
    );
    ServeOptions {
        run,
        sockets,
        log,
        ..host.options().clone()
    }
}

fn wait_for_line(options: &ServeOptions, line: &str) -> String {
    let start = Instant::now();
    loop {
        let log = std::fs::read_to_string(&options.log).unwrap_or_default();
        if log.contains(line) {
            return log;
        }
        assert!(start.elapsed() < PATIENCE, "no {line:?} in:\n{log}");
        thread::sleep(LOOK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_second_host_waits_says_so_once_and_takes_over() {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let options = second(&mut host);
    let mut second = Served::start(&options).unwrap();
    wait_for_line(&options, WAITING);
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    drop(orchestrator);
    assert!(host.terminate().unwrap().success());
    let sockets = second.sockets().unwrap();
    let orchestrator = Orchestrator::connect(sockets.first().unwrap(), &host.kubelet())
        .await
        .unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.tear_down(&volume).await.unwrap();
    drop(orchestrator);
    assert!(second.process.terminate().unwrap().success());
    let log = wait_for_line(&options, WAITING);
    assert_eq!(log.matches(WAITING).count(), 1, "{log}");
    let left = left_behind(&host, &directory_pool(&host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

#[tokio::test]
async fn privileged_a_stale_csi_socket_is_replaced_a_live_one_is_not() {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    let socket = host.socket().to_owned();
    host.kill_9().unwrap();
    assert!(socket.exists() && UnixStream::connect(&socket).is_err());
    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();

    let mut options = second(&mut host);
    options.data = host.root().join("second-data");
    options.sockets = host.options().sockets.clone();
    let mut intruder = Served::start(&options).unwrap();
    let said = format!("another process serves on {}", socket.display());
    let log = wait_for_line(&options, &said);
    let lines: Vec<_> = log.lines().filter(|line| line.contains(&said)).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = intruder.process.ended().unwrap() {
            break status;
        }
        assert!(start.elapsed() < PATIENCE, "it goes on: {log}");
        thread::sleep(LOOK);
    };
    assert_eq!(status.code(), Some(1));
    orchestrator.has_plugin().await.unwrap();
    UnixStream::connect(&socket).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_sigterm_completes_calls_and_takes_no_new_ones() {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let slow = Strace::delay(host.id(), "move_mount", SLOW).unwrap();
    let running = tokio::spawn({
        let (orchestrator, volume) = (orchestrator.clone(), volume.clone());
        async move { orchestrator.stage(&volume).await }
    });
    let journal = host.run().join("journal");
    let is_recorded = || std::fs::read_dir(&journal).is_ok_and(|it| it.count() > 0);
    wait_until("the stage is recorded", is_recorded).await;
    let id = i32::try_from(host.id()).ok().and_then(Pid::from_raw);
    kill_process(id.unwrap(), Signal::TERM).unwrap();
    // A request that comes before the signal is handled is served.
    let start = Instant::now();
    let (mut early, mut number) = (Vec::new(), 0);
    let refused = loop {
        let request = requests::create(&format!("more-{number}"), VOLUME_BYTES);
        match orchestrator.create(request).await {
            Ok(volume) => early.push(volume),
            refused => break refused,
        }
        number += 1;
        assert!(start.elapsed() < LONGEST, "the host does not stop");
    };
    assert_eq!(code(&refused), Code::Unavailable, "{refused:?}");
    running.await.unwrap().unwrap();
    drop((slow, orchestrator));
    assert!(host.terminate().unwrap().success());
    assert!(!host.socket().exists());
    assert_eq!(host.mounts().unwrap(), [volume.staging.as_path()]);

    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    for (id, _) in early {
        orchestrator.delete(&id).await.unwrap();
    }
    let left = left_behind(&host, &directory_pool(&host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

#[tokio::test]
async fn privileged_a_directory_that_is_read_only_is_one_clear_line() {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    host.terminate().unwrap();
    for (flag, directory) in [
        ("--run-dir", host.run()),
        ("--data-dir", host.data()),
        ("--socket-dir", host.options().sockets.clone()),
    ] {
        let disk = SmallDisk::mount(&directory, 1 << 20).unwrap();
        disk.make_read_only().unwrap();
        let mut options = host.options().clone();
        options.log = host.root().join(format!("{flag}.log"));
        let refused = Served::start(&options).unwrap().sockets();
        assert!(refused.is_err());
        let log = std::fs::read_to_string(&options.log).unwrap();
        let expected = format!(
            "wasmount: cannot write {}: Read-only file system (os error 30); give {flag} a directory that this user may write\n",
            directory.display()
        );
        assert_eq!(log, expected);
    }
}

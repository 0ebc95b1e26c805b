//! Hosts that follow one another: killed, stopped, or overlapping as in an upgrade. Each registration is the newer's alone, and how long nobody
//! served is told.

use crate::kubelet::process::Kubelet;
use crate::kubelet::scene::Scene;
use std::fs;
use std::os::unix::fs::MetadataExt;

const TAKEN: &str = "kubelet registered the driver";

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_stale_registration_socket_is_removed() {
    let scene = Scene::new();
    let mut kubelet = Kubelet::start(scene.kubelet());
    let mut killed = scene.host("killed", &[]);
    kubelet.takes("a.b").await;
    assert!(!killed.says(TAKEN).contains("gap_ms"));
    killed.kill_9();
    assert!(kubelet.socket("a.b").exists());
    kubelet.restarts().await;
    let mut host = scene.host("host", &[]);
    host.says("removed the registration socket of a killed host");
    kubelet.takes("a.b").await;
    host.is_ready();
    // Known without a plugin: its answer was kept.
    assert!(host.says(TAKEN).contains("from=Unknown"), "{}", host.log());
    assert!(host.terminate().success());

    let mut third = scene.host("third", &[]);
    kubelet.takes("a.b").await;
    assert!(
        third.says(TAKEN).contains("from=Stopped"),
        "{}",
        third.log()
    );
    assert!(third.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_newer_host_waits_for_the_older() {
    let scene = Scene::new();
    let kubelet = Kubelet::start(scene.kubelet());
    let mut older = scene.host("older", &[]);
    kubelet.takes("a.b").await;
    older.is_ready();
    let socket = kubelet.socket("a.b");
    let inode = fs::metadata(&socket).unwrap().ino();

    let mut newer = scene.host("newer", &[]);
    newer.says("another process has the driver registered");
    newer.says("waiting for the other host");
    assert_eq!(fs::metadata(&socket).unwrap().ino(), inode);
    older.is_ready();
    assert!(older.terminate().success());
    assert!(
        newer.says(TAKEN).contains("from=Stopped"),
        "{}",
        newer.log()
    );
    newer.is_ready();
    assert!(socket.exists());

    let mut newest = scene.host("newest", &[]);
    newest.says("waiting for the other host");
    newer.kill_9();
    assert!(
        newest.says(TAKEN).contains("from=Killed"),
        "{}",
        newest.log()
    );
    newest.is_ready();
    assert!(kubelet.knows("a.b"));
    assert!(newest.terminate().success());
    assert!(!socket.exists());
}

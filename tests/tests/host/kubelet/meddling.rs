//! What others may do to the registration socket: remove it, take its place, serve under its name first.

use crate::kubelet::process::{Heard, Kubelet};
use crate::kubelet::scene::{Host, Scene};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

/// For the second time.
async fn is_taken_again(kubelet: &Kubelet, host: &Host) {
    let is_taken = |heard: &Heard| matches!(heard, Heard::Told { error, .. } if error.is_empty());
    kubelet.hears(2, is_taken).await;
    host.is_ready();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_removed_registration_socket_returns() {
    let scene = Scene::new();
    let kubelet = Kubelet::start(scene.kubelet());
    let mut host = scene.host("host", &[]);
    kubelet.takes("a.b").await;
    host.is_ready();
    fs::remove_file(kubelet.socket("a.b")).unwrap();
    is_taken_again(&kubelet, &host).await;
    assert!(host.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_foreign_socket_owner_is_left_alone() {
    let scene = Scene::new();
    let kubelet = Kubelet::start(scene.kubelet());
    let mut host = scene.host("host", &[]);
    kubelet.takes("a.b").await;
    let socket = kubelet.socket("a.b");
    let hidden = scene.kubelet().join("plugins_registry/.other");
    let other = UnixListener::bind(&hidden).unwrap();
    fs::rename(&hidden, &socket).unwrap();
    let inode = fs::metadata(&socket).unwrap().ino();
    host.says("its registration socket was replaced");
    host.is_not_ready(&format!(
        "another process serves on {}: stop it first",
        socket.display()
    ));
    assert_eq!(fs::metadata(&socket).unwrap().ino(), inode);
    // It dies, and leaves its file behind.
    drop(other);
    is_taken_again(&kubelet, &host).await;
    assert!(host.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_that_ends_leaves_the_socket_of_another() {
    let scene = Scene::new();
    let kubelet = Kubelet::start(scene.kubelet());
    let socket = kubelet.socket("a.b");
    // Such as node-driver-registrar's.
    let _other = UnixListener::bind(&socket).unwrap();
    let mut host = scene.host("host", &[]);
    host.says("another process has the driver registered");
    host.is_not_ready(&format!(
        "another process serves on {}: stop it first",
        socket.display()
    ));
    assert!(host.terminate().success());
    assert!(socket.exists());
}

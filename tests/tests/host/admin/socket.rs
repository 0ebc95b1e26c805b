//! The admin socket as a bad neighbour meets it.

use crate::admin::scene::{DRIVER, Scene};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// More than the host has places.
const SILENT: usize = 100;
/// How long a caller may have to wait behind them. Several rounds of the host's own 5 s.
const BOUND: Duration = Duration::from_secs(30);

#[tokio::test]
async fn privileged_silent_clients_keep_no_other_out() {
    let scene = Scene::start();
    let socket = scene.host.data().join("admin.sock");
    let silent: Vec<_> = (0..SILENT)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    let begun = Instant::now();
    while scene.wasmount(&["status"]).code != Some(0) {
        assert!(begun.elapsed() < BOUND, "{}", scene.host.log());
    }
    // Nor does anybody's call wait for them.
    scene.orchestrator().await.capacity().await.unwrap();
    drop(silent);
    scene.done(&["history", DRIVER]);
}

#[tokio::test]
async fn privileged_invalid_admin_requests_are_rejected() {
    let scene = Scene::start();
    let socket = scene.host.data().join("admin.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for words in [
        "GET /v1/nothing HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST /v1/drivers/admin.wasmount.io/swap HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n{x}",
        "\0\0\0\0\r\n\r\n",
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{words}: {answer}");
    }
    scene.done(&["status"]);
}

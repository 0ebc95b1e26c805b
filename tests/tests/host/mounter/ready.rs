//! `/readyz` tells that the mounter is gone, and that it is back.

use crate::mounter::{ROOT, assert_nothing_left, mounting, split};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use wasmount_tests::host::Host;

/// How long a change may take to be seen: the host looks every two seconds.
const SEEN: Duration = Duration::from_secs(30);

fn readiness(address: SocketAddr) -> String {
    let mut answer = String::new();
    if let Ok(mut connection) = TcpStream::connect(address) {
        let request = b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        if connection.write_all(request).is_ok() {
            let _ = connection.read_to_string(&mut answer);
        }
    }
    answer
}

fn wait_for(host: &Host, address: SocketAddr, words: &str) {
    let start = Instant::now();
    let mut seen = String::new();
    while !seen.contains(words) {
        let log = host.log();
        assert!(
            start.elapsed() < SEEN,
            "{words:?} is not in {seen:?}: {log}"
        );
        std::thread::sleep(Duration::from_millis(50));
        seen = readiness(address);
    }
}

#[test]
fn privileged_a_host_is_ready_as_long_as_its_mounter_answers() {
    let mut host = split(ROOT);
    // Free a moment ago; should another take it meanwhile, the host ends and says so.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    host.options().health = address.to_string();
    host.restart().unwrap();
    wait_for(&host, address, "200 OK");
    mounting(&mut host).process.kill_9().unwrap();
    wait_for(&host, address, "the mounter does not answer");
    wait_for(&host, address, "503 Service Unavailable");
    mounting(&mut host).restart().unwrap();
    wait_for(&host, address, "200 OK");
    assert_nothing_left(&host);
}

#[test]
fn privileged_a_start_before_the_mounter_logs_no_warning() {
    let mut host = split(ROOT);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    host.options().health = address.to_string();
    assert!(host.terminate().unwrap().success());
    assert!(mounting(&mut host).process.terminate().unwrap().success());
    // What the first two said is no start without a mounter.
    let logs = [
        host.options().log.clone(),
        mounting(&mut host).options.log.clone(),
    ];
    for log in logs {
        fs::write(log, "").unwrap();
    }
    host.restart().unwrap();
    wait_for(&host, address, "the mounter does not answer yet");
    mounting(&mut host).restart().unwrap();
    wait_for(&host, address, "200 OK");
    let log = host.log();
    assert!(log.contains("waiting for the mounter"), "{log}");
    let warned = |line: &&str| line.contains("WARN") || line.contains("ERROR");
    assert_eq!(log.lines().find(warned), None, "{log}");
    assert_nothing_left(&host);
}

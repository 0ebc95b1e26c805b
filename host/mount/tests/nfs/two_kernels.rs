//! One volume on two kernels at once. The test runs on both (`cargo xtask vm --two`): the first has the server, and both are nodes.

use crate::host::{Host, NAS, create, remove};
use crate::server::{Knfsd, SHARE, eventually};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The network of both kernels, the first kernel's address in it, and where the first waits for the second.
const NETWORK: &str = "10.0.0.0/24";
const SERVER: &str = "10.0.0.1";
const MEETING: &str = "10.0.0.1:7000";
/// Lines that each kernel appends, and the one after which the server goes away.
const LINES: u32 = 60;
const LAST_BEFORE: u32 = 20;
/// How long the server is away.
const AWAY: Duration = Duration::from_secs(3);
/// Between two looks whether it is this kernel's turn.
const LOOK: Duration = Duration::from_millis(5);

/// The other kernel.
struct Peer(TcpStream);

impl Peer {
    async fn find(number: u32) -> Self {
        Self(match number {
            1 => TcpListener::bind(MEETING).unwrap().accept().unwrap().0,
            _ => eventually(async || TcpStream::connect(MEETING)).await,
        })
    }

    /// Waits until both kernels came to the same step.
    fn meet(&mut self, step: u8) {
        let mut other = [0];
        self.0.write_all(&[step]).unwrap();
        self.0.read_exact(&mut other).unwrap();
        assert_eq!(other, [step], "the kernels are at different steps");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_two_kernels_write_one_volume() {
    let number: u32 = std::env::var("WASMOUNT_VM").unwrap().parse().unwrap();
    let other = 3 - number;
    let mut peer = Peer::find(number).await;
    let server = (number == 1).then(|| Knfsd::start_for(NETWORK));
    let host = Host::at(SERVER, SHARE, &[]);
    if server.is_some() {
        host.call(create(NAS, "v")).await.unwrap();
    }
    peer.meet(1);
    let source = format!("{SERVER}:/{SHARE}/v");
    host.stage("v", &source).await.unwrap();
    let volume = host.staging("v");
    fs::write(volume.join(number.to_string()), format!("of {number}")).unwrap();
    let log = volume.join("log");
    if number == 1 {
        fs::write(&log, "").unwrap();
    }
    peer.meet(2);
    let read = fs::read_to_string(volume.join(other.to_string())).unwrap();
    assert_eq!(read, format!("of {other}"));

    let (reached, reaches) = mpsc::channel();
    let path = log.clone();
    let writer = thread::spawn(move || append(&path, number, &reached));
    if let Some(server) = &server {
        reaches.recv().unwrap();
        server.pause();
        thread::sleep(AWAY);
        server.resume();
    }
    writer.join().unwrap();
    peer.meet(3);
    assert_eq!(locked(&log), turns(2 * LINES));

    // One node leaves while the other has a file open.
    let mut open = File::options().append(true).open(&log).unwrap();
    peer.meet(4);
    if number == 2 {
        drop(open);
        host.unstage("v").await.unwrap();
        assert_eq!(fs::read_dir(&volume).unwrap().count(), 0);
        peer.meet(5);
        peer.meet(6);
        host.stage("v", &source).await.unwrap();
        assert_eq!(locked(&log), turns(2 * LINES) + "last\n");
        host.unstage("v").await.unwrap();
        peer.meet(7);
    } else {
        peer.meet(5);
        open.write_all(b"last\n").unwrap();
        open.sync_all().unwrap();
        drop(open);
        peer.meet(6);
        peer.meet(7);
        host.unstage("v").await.unwrap();
        host.call(remove(NAS, "v")).await.unwrap();
    }
    // The server stays until its clients have left.
    drop(host);
    peer.meet(8);
}

/// Appends this kernel's lines, each after the other kernel's line before it. Tells when the server may go away.
fn append(log: &Path, number: u32, reached: &mpsc::Sender<()>) {
    for line in 0..LINES {
        let before = turns(2 * line + number - 1);
        while !append_after(log, &before, &format!("{number} {line}\n")) {
            thread::sleep(LOOK);
        }
        if line == LAST_BEFORE {
            reached.send(()).unwrap();
        }
    }
}

/// Appends a line under a lock if the file has just that text, which must be how the expected one begins otherwise.
fn append_after(log: &Path, before: &str, line: &str) -> bool {
    let mut file = File::options().read(true).append(true).open(log).unwrap();
    if fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert!(before.starts_with(&text), "{text:?} is not {before:?}");
    let is_turn = text == before;
    if is_turn {
        file.write_all(line.as_bytes()).unwrap();
    }
    fcntl_lock(&file, FlockOperation::Unlock).unwrap();
    is_turn
}

/// The file, read under a lock, so that nothing old is shown.
fn locked(log: &Path) -> String {
    let mut file = File::open(log).unwrap();
    fcntl_lock(&file, FlockOperation::LockShared).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

/// What both kernels have written after that many turns.
fn turns(count: u32) -> String {
    (0..count)
        .map(|turn| format!("{} {}\n", turn % 2 + 1, turn / 2))
        .collect()
}

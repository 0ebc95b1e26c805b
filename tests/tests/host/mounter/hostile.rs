//! The mounter's socket under attack: by its own client's user, and by another.

use crate::mounter::{NOBODY, ROOT, assert_nothing_left, mounting, serving};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use wasmount_mounter::VERSION;
use wasmount_tests::host::Host;
use wasmount_tests::mounter::MounterOptions;
use xtask::process::Process;

/// As many as a client out of control opens.
const CONNECTIONS: usize = 1000;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// How long a line of the log may take. Generous: other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn connected(path: &Path) -> Result<OwnedFd, Errno> {
    let client = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    connect(&client, &SocketAddrUnix::new(path)?)?;
    Ok(client)
}

fn greeting() -> Vec<u8> {
    [&b"wasmount"[..], &VERSION.to_le_bytes(), &[7; 16]].concat()
}

/// Connects on a thread that is another user.
fn connected_as(user: u32, path: &Path) -> Result<OwnedFd, Errno> {
    let path = path.to_owned();
    let stranger = std::thread::spawn(move || {
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        connected(&path)
    });
    stranger.join().unwrap()
}

#[tokio::test]
async fn privileged_random_bytes_and_many_connections_do_no_harm() {
    let (mut host, orchestrator) = serving(ROOT).await;
    let path = mounting(&mut host).options.socket.clone();
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.stage(&volume).await.unwrap();

    let mut random = vec![0; 4096];
    let mut open = Vec::new();
    for number in 0..CONNECTIONS {
        let client = connected(&path).unwrap();
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
        // Each kind of wrong: no greeting, only a greeting, a greeting and noise, half a message.
        let packets: &[&[u8]] = match number % 4 {
            0 => &[&random],
            1 => &[&greeting()],
            2 => &[&greeting(), &random],
            _ => &[&greeting(), &[0, 1, 0, 0, 9]],
        };
        for packet in packets {
            let _ = send(&client, packet, SendFlags::NOSIGNAL);
        }
        if number % 2 == 0 {
            open.push(client);
        }
    }
    orchestrator.publish(&volume).await.unwrap();
    volume.write("kept").unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert!(host.log().contains("a connection was closed"));
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_the_socket_is_its_clients_alone() {
    for (user, stranger) in [(ROOT, NOBODY), (NOBODY, NOBODY - 1)] {
        let (mut host, _orchestrator) = serving(user).await;
        let path = mounting(&mut host).options.socket.clone();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
        assert_eq!(metadata.uid(), user);
        // The way to it is open to all, so that the socket's own mode is what refuses.
        std::fs::set_permissions(host.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let refused = connected_as(stranger, &path).err();
        assert_eq!(refused, Some(Errno::ACCESS));
        if user != ROOT {
            // Root passes every mode; the mounter itself closes.
            drop(connected(&path).unwrap());
            wait_for(&host, "only 65534 may connect").await;
        }
    }
}

async fn wait_for(host: &Host, words: &str) {
    let start = Instant::now();
    while !host.log().contains(words) {
        let log = host.log();
        assert!(start.elapsed() < PATIENCE, "{words:?} is not in {log}");
        sleep(LOOK).await;
    }
}

#[tokio::test]
async fn privileged_a_second_mounter_waits_for_the_first() {
    let (mut host, orchestrator) = serving(ROOT).await;
    let first = mounting(&mut host).options.clone();
    // With the same journal, with the same durable records, and with the same socket.
    let own = |name: &str| host.root().join(name);
    let second = MounterOptions {
        socket: own("second.sock"),
        run: own("second-run"),
        data: own("second-data"),
        log: own("second.log"),
        ..first.clone()
    };
    let same_journal = MounterOptions {
        run: first.run,
        ..second.clone()
    };
    let same_records = MounterOptions {
        data: first.data,
        ..second.clone()
    };
    let same_socket = MounterOptions {
        socket: first.socket,
        ..second
    };
    for (options, words) in [
        (same_journal, "name another run directory"),
        (same_records, "name another state directory"),
        (same_socket, "another process serves on"),
    ] {
        let _ = std::fs::remove_file(&options.log);
        let mut second = Process::start(options.command(), &options.log).unwrap();
        while second.ended().unwrap().is_none() {
            sleep(LOOK).await;
        }
        let log = std::fs::read_to_string(&options.log).unwrap();
        assert!(log.contains(words), "{log}");
    }
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

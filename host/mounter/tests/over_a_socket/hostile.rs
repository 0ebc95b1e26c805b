//! A hostile process of the permitted user, or of another one, can only lose its own connection.

use crate::bench::{Bench, CONNECTIONS, unstage, until};
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use tokio_seqpacket::UnixSeqpacket;
use wasmount_core::mounter::{MountError, Mounter};
use wasmount_mounter::VERSION;

/// Longer than the server's time limit for an incomplete message.
const LONG: Duration = Duration::from_secs(15);

fn greeting(version: u32) -> Vec<u8> {
    [&b"wasmount"[..], &version.to_le_bytes(), &[7; 16]].concat()
}

fn packet(to_come: u32, part: &[u8]) -> Vec<u8> {
    [&to_come.to_le_bytes()[..], part].concat()
}

async fn connected(socket: &Path) -> UnixSeqpacket {
    UnixSeqpacket::connect(socket).await.unwrap()
}

async fn greeted(socket: &Path) -> UnixSeqpacket {
    let connection = connected(socket).await;
    connection.send(&greeting(VERSION)).await.unwrap();
    let mut theirs = [0; 64];
    let came = connection.recv(&mut theirs).await.unwrap();
    assert_eq!(came.bytes_read(), 28);
    connection
}

/// Waits until the server closes; returns what it sent before.
async fn closed(connection: &UnixSeqpacket) -> Vec<u8> {
    let mut said = Vec::new();
    loop {
        let mut buffer = [0; 64];
        let came = timeout(LONG, connection.recv(&mut buffer)).await.unwrap();
        // A reset is an end as well: the server did not read all that was sent.
        match came.map_or(0, |came| came.bytes_read()) {
            0 => return said,
            bytes => said.extend(buffer.iter().take(bytes)),
        }
    }
}

#[tokio::test]
async fn a_malformed_message_costs_its_connection_and_no_other() {
    let bench = Bench::start();
    let good = bench.client();
    good.unstage(unstage("v")).await.unwrap();
    for sent in [
        vec![packet(0, b"\xff\xff\xff\xff\xff\xff")],
        vec![b"abc".to_vec()],
        vec![packet(0, &[])],
        vec![packet(u32::MAX, b"a")],
        vec![packet(10, b"a"), packet(10, b"a")],
        vec![vec![0; 66_000]],
        // A complete request with one extra byte.
        vec![packet(0, &[9, 0])],
    ] {
        let connection = greeted(&bench.socket()).await;
        for packet in sent {
            let _ = connection.send(&packet).await;
        }
        assert_eq!(closed(&connection).await, b"");
        good.unstage(unstage("v")).await.unwrap();
    }
    assert!(bench.mounter.calls().iter().all(|call| call == "unstage v"));
}

#[tokio::test]
async fn a_half_message_is_waited_for_a_while_and_a_slow_greeting_too() {
    let bench = Bench::start();
    let half = greeted(&bench.socket()).await;
    half.send(&packet(1000, b"a")).await.unwrap();
    let silent = connected(&bench.socket()).await;
    let ((), ()) = tokio::join!(async { assert_eq!(closed(&half).await, b"") }, async {
        assert_eq!(closed(&silent).await, b"")
    },);
    bench.client().unstage(unstage("v")).await.unwrap();
}

#[tokio::test]
async fn another_version_and_another_protocol_are_refused_in_words() {
    let bench = Bench::start();
    let other = connected(&bench.socket()).await;
    other.send(&greeting(VERSION + 1)).await.unwrap();
    // The client learns which version the server has.
    let theirs = closed(&other).await;
    assert_eq!(theirs.get(..12), greeting(VERSION).get(..12));
    let stranger = connected(&bench.socket()).await;
    stranger.send(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(closed(&stranger).await, b"");
}

#[tokio::test]
async fn a_client_says_which_versions_do_not_fit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.sock");
    let mut listener = tokio_seqpacket::UnixSeqpacketListener::bind(&path).unwrap();
    let other = tokio::spawn(async move {
        let connection = listener.accept().await.unwrap();
        connection.send(&greeting(VERSION + 1)).await.unwrap();
        closed(&connection).await
    });
    let client = wasmount_mounter::SocketMounter::new(&path).unwrap();
    let refused = client.unstage(unstage("v")).await.unwrap_err();
    assert!(matches!(refused, MountError::Unsupported { .. }));
    let text = refused.to_string();
    let versions = format!(
        "version {} of the protocol and this host {VERSION}",
        VERSION + 1
    );
    assert!(text.contains(&versions), "{text}");
    // No request was sent to the other server.
    drop(client);
    assert_eq!(other.await.unwrap().len(), 28);
}

#[tokio::test]
async fn another_user_is_not_heard() {
    let own = rustix::process::geteuid().as_raw();
    let bench = Bench::of_user(own + 1);
    let refused = bench.client().unstage(unstage("v")).await;
    let Err(MountError::Unreachable { reason }) = refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("the log of `wasmount mounter`"), "{reason}");
    assert_eq!(bench.mounter.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn a_client_waits_while_all_connections_are_taken() {
    let bench = Bench::start();
    let good = bench.client();
    good.unstage(unstage("v")).await.unwrap();
    let mut hostile = Vec::new();
    for _ in 0..3 * CONNECTIONS {
        let connection = timeout(Duration::from_millis(20), connected(&bench.socket())).await;
        hostile.extend(connection);
    }
    // The connection that the client has continues to work; the first new one is accepted when the silent ones are closed.
    good.unstage(unstage("v")).await.unwrap();
    let late = bench.client();
    let start = std::time::Instant::now();
    while late.unstage(unstage("w")).await.is_err() {
        assert!(start.elapsed() < 3 * LONG, "it was never let in");
    }
    drop(hostile);
    bench.client().unstage(unstage("x")).await.unwrap();
}

#[tokio::test]
async fn a_request_of_a_client_that_is_gone_is_not_begun() {
    let bench = Bench::start();
    let message = {
        // `Unstage` of volume "v" of driver "a.b" at "/stage/v", as postcard writes it.
        let mut words = vec![3];
        for word in ["a.b", "v", "/stage/v"] {
            words.push(u8::try_from(word.len()).unwrap());
            words.extend(word.as_bytes());
        }
        packet(0, &words)
    };
    for _ in 0..20 {
        let connection = greeted(&bench.socket()).await;
        connection.send(&message).await.unwrap();
        // The server, on the same thread, has not run since.
        drop(connection);
    }
    bench.client().unstage(unstage("w")).await.unwrap();
    assert_eq!(bench.mounter.calls(), ["unstage w"]);
    // The same bytes from a client that stays connected are a request.
    let connection = greeted(&bench.socket()).await;
    connection.send(&message).await.unwrap();
    until(|| bench.mounter.ended().len() == 2).await;
}

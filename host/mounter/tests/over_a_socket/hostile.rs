//! A hostile process of the permitted user, or of another one, can only lose its own connection.

use crate::bench::{Bench, CONNECTIONS, unstage, until};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use wasmount_core::mounter::{MountError, Mounter};
use wasmount_mounter::VERSION;

/// Longer than the server's time limit for an incomplete message.
const LONG: Duration = Duration::from_secs(15);

fn greeting(version: u32) -> Vec<u8> {
    [&b"wasmount"[..], &version.to_le_bytes(), &[7; 16]].concat()
}

fn message(length: u32, bytes: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes()[..], bytes].concat()
}

async fn connected(socket: &Path) -> UnixStream {
    UnixStream::connect(socket).await.unwrap()
}

async fn greeted(socket: &Path) -> UnixStream {
    let mut connection = connected(socket).await;
    connection.write_all(&greeting(VERSION)).await.unwrap();
    let mut theirs = [0; 28];
    connection.read_exact(&mut theirs).await.unwrap();
    connection
}

/// Waits until the server closes; returns what it sent before.
async fn closed(connection: &mut UnixStream) -> Vec<u8> {
    let mut sent = Vec::new();
    // A reset is an end as well: the server did not read all that was sent.
    let _ = timeout(LONG, connection.read_to_end(&mut sent))
        .await
        .unwrap();
    sent
}

#[tokio::test]
async fn a_malformed_message_costs_its_connection_and_no_other() {
    let bench = Bench::start();
    let good = bench.client();
    good.unstage(unstage("v")).await.unwrap();
    for sent in [
        message(6, b"\xff\xff\xff\xff\xff\xff"),
        b"abc".to_vec(),
        message(0, &[]),
        message(u32::MAX, b"a"),
        message(2, b"ab"),
        vec![0; 66_000],
        // A complete request with one extra byte.
        message(2, &[9, 0]),
    ] {
        let mut connection = greeted(&bench.socket()).await;
        let _ = connection.write_all(&sent).await;
        assert_eq!(closed(&mut connection).await, b"");
        good.unstage(unstage("v")).await.unwrap();
    }
    assert!(bench.mounter.calls().iter().all(|call| call == "unstage v"));
}

#[tokio::test]
async fn a_half_message_is_waited_for_a_while_and_a_slow_greeting_too() {
    let bench = Bench::start();
    let mut half = greeted(&bench.socket()).await;
    half.write_all(&message(1000, b"a")).await.unwrap();
    let mut silent = connected(&bench.socket()).await;
    let ((), ()) = tokio::join!(async { assert_eq!(closed(&mut half).await, b"") }, async {
        assert_eq!(closed(&mut silent).await, b"")
    },);
    bench.client().unstage(unstage("v")).await.unwrap();
}

#[tokio::test]
async fn another_version_or_protocol_is_rejected() {
    let bench = Bench::start();
    let mut other = connected(&bench.socket()).await;
    other.write_all(&greeting(VERSION + 1)).await.unwrap();
    // The client learns which version the server has.
    let theirs = closed(&mut other).await;
    assert_eq!(theirs.get(..12), greeting(VERSION).get(..12));
    let mut stranger = connected(&bench.socket()).await;
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(closed(&mut stranger).await, b"");
}

#[tokio::test]
async fn a_client_says_which_versions_do_not_fit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let other = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.write_all(&greeting(VERSION + 1)).await.unwrap();
        closed(&mut connection).await
    });
    let client = wasmount_mounter::SocketMounter::new(&path);
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
    let Err(MountError::Unreachable(reason)) = refused else {
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
    let unstage_v = {
        // No steps, and `Unstage` of volume "v" of driver "a.b" at "/stage/v", as postcard writes it.
        let mut words = vec![0, 3];
        for word in ["a.b", "v", "/stage/v"] {
            words.push(u8::try_from(word.len()).unwrap());
            words.extend(word.as_bytes());
        }
        message(u32::try_from(words.len()).unwrap(), &words)
    };
    for _ in 0..20 {
        let mut connection = greeted(&bench.socket()).await;
        connection.write_all(&unstage_v).await.unwrap();
        // The server, on the same thread, has not run since.
        drop(connection);
    }
    bench.client().unstage(unstage("w")).await.unwrap();
    assert_eq!(bench.mounter.calls(), ["unstage w"]);
    // The same bytes from a client that stays connected are a request.
    let mut connection = greeted(&bench.socket()).await;
    connection.write_all(&unstage_v).await.unwrap();
    until(|| bench.mounter.ended().len() == 2).await;
}

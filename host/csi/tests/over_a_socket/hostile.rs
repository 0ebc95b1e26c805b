//! Clients that are slow, silent, many, or do not speak gRPC: none harms another.

use crate::support::{PATIENCE, Served};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use wasmount_core::driver::Role;
use wasmount_core::services::Offer;

/// How every HTTP/2 connection begins, with an empty SETTINGS frame behind it (RFC 9113, 3.4 and 6.5).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Connections that do nothing.
const IDLE: usize = 2000;

/// Two descriptors a connection, both ends being here, and some for the rest of the tests.
const DESCRIPTORS: u64 = 2 * IDLE as u64 + 1000;

fn allow_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= DESCRIPTORS) {
        return;
    }
    assert!(
        maximum.is_none_or(|maximum| maximum >= DESCRIPTORS),
        "needs ulimit -Hn of at least {DESCRIPTORS}"
    );
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(DESCRIPTORS),
            maximum,
        },
    )
    .unwrap();
}

/// Reads until the server closes.
async fn closed_by_server(mut connection: UnixStream) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut rest)).await;
    // That reading itself failed is a close as well: bytes of ours were left unread.
    assert!(read.is_ok(), "the server did not close");
}

#[tokio::test]
async fn a_call_is_answered_beside_two_thousand_idle_connections() {
    allow_descriptors();
    let served = Served::whole();
    let mut idle = Vec::with_capacity(IDLE);
    for number in 0..IDLE {
        let mut connection = UnixStream::connect(&served.socket).await.unwrap();
        // Every second one has spoken, the others are silent from the start.
        if number % 2 == 0 {
            connection.write_all(PREFACE).await.unwrap();
        }
        idle.push(connection);
    }
    served.answers().await;
    drop(idle);
    served.answers().await;
}

#[tokio::test]
async fn a_driver_has_no_more_connections_than_it_may_and_the_next_client_waits() {
    let offer = Offer::new([], []);
    let served = Served::with_connections(Role::All, offer, 3);
    let connect = || UnixStream::connect(&served.socket);
    let mut idle = Vec::new();
    for _ in 0..3 {
        let mut connection = connect().await.unwrap();
        connection.write_all(PREFACE).await.unwrap();
        // The server's SETTINGS: it was taken.
        connection.read_u8().await.unwrap();
        idle.push(connection);
    }
    let mut waiting = connect().await.unwrap();
    waiting.write_all(PREFACE).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(300), waiting.read_u8()).await;
    assert!(early.is_err(), "a fourth connection was taken");
    drop(idle.pop());
    let late = tokio::time::timeout(PATIENCE, waiting.read_u8()).await;
    late.unwrap().unwrap();
    drop(idle.pop());
    served.answers().await;
}

#[tokio::test]
async fn half_a_frame_holds_up_nobody_else() {
    let served = Served::whole();
    let mut slow = UnixStream::connect(&served.socket).await.unwrap();
    slow.write_all(PREFACE).await.unwrap();
    // A HEADERS frame of stream 1 that announces 100 bytes and brings 3.
    slow.write_all(b"\0\0\x64\x01\x04\0\0\0\x01\x82\x86\x84")
        .await
        .unwrap();
    for _ in 0..3 {
        served.answers().await;
    }
    // It was not cut off for being slow: the server still reads.
    slow.write_all(&[0]).await.unwrap();
}

#[tokio::test]
async fn bytes_that_are_no_http_close_their_own_connection_only() {
    let served = Served::whole();
    let mut polite = served.identity().await;
    for garbage in [
        vec![0_u8; 4096],
        vec![0xff; 64],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
    ] {
        let mut connection = UnixStream::connect(&served.socket).await.unwrap();
        connection.write_all(&garbage).await.unwrap();
        closed_by_server(connection).await;
        served.answers().await;
    }
    let probe = polite
        .probe(wasmount_csi::wire::csi::v1::ProbeRequest {})
        .await;
    assert_eq!(probe.unwrap().into_inner().ready, Some(true));
}

#[tokio::test]
async fn frames_that_break_the_protocol_close_their_own_connection_only() {
    let served = Served::whole();
    let mut connection = UnixStream::connect(&served.socket).await.unwrap();
    connection.write_all(PREFACE).await.unwrap();
    // DATA on stream 1, which was never opened.
    connection
        .write_all(b"\0\0\x01\0\0\0\0\0\x01x")
        .await
        .unwrap();
    closed_by_server(connection).await;
    served.answers().await;
}

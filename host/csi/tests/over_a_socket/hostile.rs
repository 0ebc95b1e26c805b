//! Clients that are slow, silent, many, or do not speak gRPC: none affects another.

use crate::limits::MESSAGE_BYTES;
use crate::support::{PATIENCE, Served};
use h2::client::{ResponseFuture, SendRequest};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic::Code;
use tonic::codegen::Bytes;
use tonic::codegen::http::Request;
use wasmount_core::driver::Role;
use wasmount_core::services::ServiceSet;

/// The first bytes of every HTTP/2 connection, with an empty SETTINGS frame (RFC 9113, 3.4 and 6.5).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A call without an argument from a client on gRPC's C core: POST, http, the authority with the index that follows, its path, its content type, an
/// empty message.
fn probe_with_authority(authority: &str) -> Vec<u8> {
    let field = |name: &str, value: &str| {
        let [name, value] = [name, value].map(str::as_bytes);
        let length = |text: &[u8]| u8::try_from(text.len()).unwrap();
        [&[0x40, length(name)], name, &[length(value)], value].concat()
    };
    let fields = [
        b"\x83\x86".to_vec(),
        field(":authority", authority),
        field(":path", "/csi.v1.Identity/Probe"),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ]
    .concat();
    let length = u8::try_from(fields.len()).unwrap();
    [
        &[0, 0, length, 1, 4, 0, 0, 0, 1][..],
        &fields,
        b"\0\0\x05\0\x01\0\0\0\x01\0\0\0\0\0",
    ]
    .concat()
}

/// The type of the first frame of stream 1.
async fn answered_by(connection: &mut UnixStream) -> u8 {
    loop {
        let mut header = [0; 9];
        connection.read_exact(&mut header).await.unwrap();
        let [high, middle, low, kind, _, stream @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        connection.read_exact(&mut payload).await.unwrap();
        if stream == [0, 0, 0, 1] {
            return kind;
        }
    }
}

/// Starts a call and sends this much of a message of 4 MiB.
async fn begin(
    client: &mut SendRequest<Bytes>,
    bytes: usize,
) -> (ResponseFuture, h2::SendStream<Bytes>) {
    let request = Request::post("http://localhost/csi.v1.Controller/DeleteVolume")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let mut ready = client.clone().ready().await.unwrap();
    let (answer, mut body) = ready.send_request(request, false).unwrap();
    let message = [&[0, 0, 0x40, 0, 0][..], &vec![0; bytes]].concat();
    body.send_data(message.into(), false).unwrap();
    (answer, body)
}

async fn code(answer: ResponseFuture) -> Code {
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
    let status = answer.unwrap().headers()["grpc-status"].clone();
    Code::from_bytes(status.as_bytes())
}

/// Connections that send nothing.
const IDLE: usize = 2000;

/// Two descriptors for each connection, since both ends are in this process, and some for the rest of the tests.
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

/// Reads until the server closes the connection.
async fn closed_by_server(mut connection: UnixStream) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut rest)).await;
    // A read error also counts as closed: the server left unread bytes.
    assert!(read.is_ok(), "the server did not close");
}

#[tokio::test]
async fn a_call_is_answered_beside_two_thousand_idle_connections() {
    allow_descriptors();
    let served = Served::whole();
    let mut idle = Vec::with_capacity(IDLE);
    for number in 0..IDLE {
        let mut connection = UnixStream::connect(&served.socket).await.unwrap();
        // Every second connection sends data, the others are silent from the start.
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
async fn connections_above_the_limit_wait() {
    let offer = ServiceSet::new([], []);
    let served = Served::with_connections(Role::All, offer, 3);
    let connect = || UnixStream::connect(&served.socket);
    let mut idle = Vec::new();
    for _ in 0..3 {
        let mut connection = connect().await.unwrap();
        connection.write_all(PREFACE).await.unwrap();
        // The server's SETTINGS: the connection was accepted.
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
async fn half_a_frame_delays_no_other_connection() {
    let served = Served::whole();
    let mut slow = UnixStream::connect(&served.socket).await.unwrap();
    slow.write_all(PREFACE).await.unwrap();
    // A HEADERS frame of stream 1 that announces 100 bytes and contains 3.
    slow.write_all(b"\0\0\x64\x01\x04\0\0\0\x01\x82\x86\x84")
        .await
        .unwrap();
    for _ in 0..3 {
        served.answers().await;
    }
    // The slow client was not disconnected: the server still reads.
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
async fn frames_that_break_the_protocol_close_only_their_connection() {
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

#[tokio::test]
async fn any_authority_is_taken() {
    let served = Served::whole();
    for authority in ["%2Ftmp%2Fcsi.sock", "/tmp/csi.sock", "localhost", "[::1]:1"] {
        let mut connection = UnixStream::connect(&served.socket).await.unwrap();
        connection.write_all(PREFACE).await.unwrap();
        let call = probe_with_authority(authority);
        connection.write_all(&call).await.unwrap();
        let answered = tokio::time::timeout(PATIENCE, answered_by(&mut connection)).await;
        // HEADERS; an error would be RST_STREAM, which is 3.
        assert_eq!(answered.unwrap(), 1, "{authority}");
    }
}

#[tokio::test]
async fn half_sent_requests_hold_a_bounded_share_and_end() {
    const STREAMS: usize = 200;
    const SENT: usize = 256 << 10;
    let served = Served::whole();
    let connection = UnixStream::connect(&served.socket).await.unwrap();
    let (mut client, connection) = h2::client::handshake(connection).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut calls = Vec::new();
    for _ in 0..STREAMS {
        calls.push(begin(&mut client, SENT).await);
    }
    // Another connection has its own share, even for a request of the largest size.
    served.answers().await;
    let mut controller = served.controller().await;
    let request = crate::limits::request_of(MESSAGE_BYTES);
    controller.delete_volume(request).await.unwrap();
    let (answers, _bodies): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
    let codes = futures::future::join_all(answers.into_iter().map(code)).await;
    let of = |code| codes.iter().filter(|it| **it == code).count();
    let (refused, stalled) = (of(Code::Unavailable), of(Code::DeadlineExceeded));
    assert_eq!(refused + stalled, STREAMS, "{codes:?}");
    // 16 MiB of a connection, divided by 256 KiB and a little more.
    assert!((32..64).contains(&stalled), "{stalled}");
    // The memory of the ended requests is free again.
    let (answer, mut body) = begin(&mut client, MESSAGE_BYTES).await;
    body.send_data(Bytes::new(), true).unwrap();
    // Zeros are not a valid message: it was read completely.
    assert_eq!(code(answer).await, Code::Internal);
    connection.abort();
    served.answers().await;
}

#[tokio::test]
async fn half_sent_requests_of_all_connections_hold_a_bounded_share() {
    let served = Served::whole();
    let mut calls = Vec::new();
    let mut connections = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let connection = UnixStream::connect(&served.socket).await.unwrap();
        let (mut client, connection) = h2::client::handshake(connection).await.unwrap();
        connections.spawn(connection);
        for _ in 0..4 {
            // A quarter of a connection's limit, less the memory of a request beside its message.
            calls.push(begin(&mut client, MESSAGE_BYTES - (64 << 10)).await);
        }
    }
    let (answers, _bodies): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
    let codes = futures::future::join_all(answers.into_iter().map(code)).await;
    let stalled = codes.iter().filter(|it| **it == Code::DeadlineExceeded);
    // 32 MiB of the socket.
    assert!((1..=8).contains(&stalled.count()), "{codes:?}");
    // Closed connections hold no memory.
    connections.shutdown().await;
    served.answers().await;
}

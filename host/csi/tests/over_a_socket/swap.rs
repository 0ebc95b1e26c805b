//! A version with new capabilities: clients read capabilities when they connect, so their connections are closed, and nothing else is.

use crate::support::backend::MemoryBackend;
use crate::support::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;
use wasmount_core::driver::{Role, ServingPolicy};
use wasmount_core::services::{Service, ServiceSet};
use wasmount_csi::wire::csi::v1 as wire;

/// Far longer than a server takes to send GOAWAY.
const SOON: Duration = Duration::from_secs(2);

const POOR: [Service; 2] = [Service::Controller, Service::NodeStage];
const RICH: [Service; 3] = [Service::Controller, Service::NodeStage, Service::Capacity];

fn swap(served: &Served, services: &[Service]) {
    let offer = ServiceSet::new(services.iter().copied(), []);
    let backend = Arc::new(MemoryBackend::new(offer));
    served
        .driver
        .activate(backend as _, ServingPolicy::default());
}

fn served() -> Served {
    Served::in_role(Role::All, ServiceSet::new(POOR, []))
}

/// A client that completes HTTP/2's first settings and then only reads.
async fn listening(served: &Served) -> UnixStream {
    let mut client = UnixStream::connect(&served.socket).await.unwrap();
    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut first = [0; 9];
    client.read_exact(&mut first).await.unwrap();
    client
}

/// Whether the server announces that it will close (HTTP/2, frame type GOAWAY).
async fn is_sent_away(client: &mut UnixStream) -> bool {
    const GOAWAY: u8 = 7;
    let mut frames = Vec::new();
    loop {
        let mut bytes = [0; 1024];
        let read = match timeout(SOON, client.read(&mut bytes)).await {
            Err(_) => return false,
            Ok(read) => read.unwrap(),
        };
        frames.extend_from_slice(&bytes[..read]);
        // A frame's type is its fourth byte, after three bytes of length. The rest of the first settings frame may arrive first.
        let found = frames
            .windows(9)
            .any(|head| head[3] == GOAWAY && head[..2] == [0, 0] && head[4..9] == [0; 5]);
        if found || read == 0 {
            return true;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_disconnected_when_capabilities_are_added() {
    let served = served();
    let inode = fs::metadata(&served.socket).unwrap().ino();
    let mut client = listening(&served).await;
    swap(&served, &RICH);
    assert!(is_sent_away(&mut client).await);
    served.answers().await;
    let after = fs::metadata(&served.socket).unwrap().ino();
    assert_eq!(after, inode, "the socket stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_stay_when_a_version_brings_nothing_new() {
    let served = served();
    let mut client = listening(&served).await;
    swap(&served, &POOR);
    swap(&served, &POOR[..1]);
    assert!(!is_sent_away(&mut client).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_runs_while_its_client_is_sent_away_is_answered() {
    let served = served();
    let mut controller = served.controller().await;
    let closed = served.backend.gate.write().await;
    let call = tokio::spawn(async move { controller.create_volume(volume_named("held")).await });
    until("the call has come", || served.driver.calls_in_flight() == 1).await;
    let mut other = listening(&served).await;
    swap(&served, &RICH);
    // A client that connects before the connections are closed receives GOAWAY too.
    assert!(is_sent_away(&mut other).await);
    served.answers().await;
    drop(closed);
    let answer = timeout(PATIENCE, call).await.unwrap().unwrap();
    assert!(answer.unwrap().into_inner().volume.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_one_channel_go_on_through_many_such_versions() {
    let served = served();
    let mut identity = served.identity().await;
    for round in 0..20 {
        swap(&served, if round % 2 == 0 { &RICH } else { &POOR });
        // The client of this test reconnects automatically; a call during the close of a connection may have to be retried.
        let mut answered = false;
        for _ in 0..3 {
            let request = wire::GetPluginInfoRequest {};
            answered |= identity.get_plugin_info(request).await.is_ok();
        }
        assert!(answered, "round {round}");
    }
    served.shutdown.cancel();
    timeout(PATIENCE, served.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

//! Clients that do not wait: the work continues, and a retry finds it.

use crate::support::{PATIENCE, Served, refused, until, volume_named};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tonic::{Code, Request};

#[tokio::test]
async fn a_deadline_passes_the_work_goes_on_and_the_retry_finds_it() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    let closed = served.backend.gate.write().await;
    let mut hurried = Request::new(volume_named("a"));
    hurried.set_timeout(Duration::from_millis(50));
    // It depends on which timer fires first: the server returns DEADLINE_EXCEEDED, tonic's client CANCELLED. A test in `rpc` fixes the server's code.
    let (late, words) = refused(controller.create_volume(hurried).await);
    assert!(
        matches!(late, Code::DeadlineExceeded | Code::Cancelled),
        "{late:?}: {words}"
    );
    until("the call began", || {
        served.backend.begun.load(Ordering::SeqCst) == 1
    })
    .await;

    let (code, words) = refused(controller.create_volume(volume_named("a")).await);
    assert_eq!(code, Code::Aborted, "{words}");
    drop(closed);
    until("the first call ended", || {
        served.backend.created.load(Ordering::SeqCst) == 1
    })
    .await;
    created_by_retry(&served, "v-a").await;
}

#[tokio::test]
async fn a_client_hangs_up_the_work_goes_on_and_the_retry_finds_it() {
    let served = Served::whole();
    let closed = served.backend.gate.write().await;
    let mut leaving = served.controller().await;
    let call =
        tokio::spawn(async move { leaving.create_volume(volume_named("a")).await.map(drop) });
    until("the call began", || {
        served.backend.begun.load(Ordering::SeqCst) == 1
    })
    .await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());

    let mut controller = served.controller().await;
    assert_eq!(
        refused(controller.create_volume(volume_named("a")).await).0,
        Code::Aborted
    );
    drop(closed);
    until("the first call ended", || {
        served.backend.created.load(Ordering::SeqCst) == 1
    })
    .await;
    created_by_retry(&served, "v-a").await;
}

/// Retries as a sidecar does: ABORTED is possible until the first call has released its claims.
async fn created_by_retry(served: &Served, id: &str) {
    let mut controller = served.controller().await;
    let retried = tokio::time::timeout(PATIENCE, async {
        loop {
            match controller.create_volume(volume_named("a")).await {
                Ok(answer) => return answer.into_inner().volume.unwrap().volume_id,
                Err(status) => assert_eq!(status.code(), Code::Aborted),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert_eq!(retried.await.unwrap(), id);
}

#[tokio::test]
async fn a_call_within_its_deadline_is_answered() {
    let served = Served::whole();
    let mut request = Request::new(volume_named("a"));
    request.set_timeout(PATIENCE);
    served
        .controller()
        .await
        .create_volume(request)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_shutdown_removes_the_socket_and_ends() {
    let served = Served::whole();
    served.answers().await;
    assert_eq!(served.driver.shutdown(PATIENCE).await, 0);
    served.shutdown.cancel();
    tokio::time::timeout(PATIENCE, served.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(!served.socket.exists());
}

/// A stop without pending answers takes less than this, on a busy machine; well below the time limit of answers.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The first bytes of every HTTP/2 connection, with an empty SETTINGS frame (RFC 9113, 3.4 and 6.5).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test]
async fn a_shutdown_does_not_wait_for_idle_clients() {
    let served = Served::whole();
    let connect = || tokio::net::UnixStream::connect(&served.socket);
    let _silent = connect().await.unwrap();
    // It speaks HTTP/2, and never answers the server's GOAWAY.
    let mut deaf = connect().await.unwrap();
    deaf.write_all(PREFACE).await.unwrap();
    served.answers().await;
    served.shutdown.cancel();
    let ended = tokio::time::timeout(AT_ONCE, served.task).await;
    ended.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_shutdown_waits_for_calls_and_not_for_idle_clients() {
    let served = Served::whole();
    let mut deaf = tokio::net::UnixStream::connect(&served.socket)
        .await
        .unwrap();
    deaf.write_all(PREFACE).await.unwrap();
    let closed = served.backend.gate.write().await;
    let mut controller = served.controller().await;
    let call = tokio::spawn(async move { controller.create_volume(volume_named("a")).await });
    until("the call began", || {
        served.backend.begun.load(Ordering::SeqCst) == 1
    })
    .await;
    served.shutdown.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!served.task.is_finished() && !call.is_finished());
    drop(closed);
    call.await.unwrap().unwrap();
    let ended = tokio::time::timeout(AT_ONCE, served.task).await;
    ended.unwrap().unwrap().unwrap();
}

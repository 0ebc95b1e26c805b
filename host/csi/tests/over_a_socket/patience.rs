//! Clients that do not wait: the work goes on, and a retry finds it.

use crate::support::{PATIENCE, Served, refused, until, volume_named};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tonic::{Code, Request};

#[tokio::test]
async fn a_deadline_passes_the_work_goes_on_and_the_retry_finds_it() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    let closed = served.backend.gate.write().await;
    let mut hurried = Request::new(volume_named("a"));
    hurried.set_timeout(Duration::from_millis(50));
    // Whoever notices first: DEADLINE_EXCEEDED is the server's word, CANCELLED that of tonic's client. The server's is pinned in `rpc`.
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

/// Retries as a sidecar does: ABORTED may be answered until the first call has let go.
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

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever_for_a_silent_client() {
    let served = Served::whole();
    let _silent = tokio::net::UnixStream::connect(&served.socket)
        .await
        .unwrap();
    served.answers().await;
    served.shutdown.cancel();
    tokio::time::timeout(PATIENCE, served.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

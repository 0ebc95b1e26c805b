//! One side is killed and restarted: a job that it began is finished or rejected, and never runs twice at the same time.

use crate::bench::{Bench, driver, unstage, until};
use std::sync::Arc;
use wasmount_core::mounter::{MountError, Mounter};
use wasmount_core::pool::PoolCall;
use wasmount_mounter::SocketMounter;

fn begin(
    client: &Arc<SocketMounter>,
    volume: &str,
) -> tokio::task::JoinHandle<Result<(), MountError>> {
    let (client, request) = (client.clone(), unstage(volume));
    tokio::spawn(async move { client.unstage(request).await })
}

#[tokio::test]
async fn work_of_an_earlier_client_ends_before_the_next_repeats_it() {
    let bench = Bench::start();
    bench.mounter.hold(true);
    let killed = bench.client();
    let call = begin(&killed, "v");
    until(|| bench.mounter.calls().len() == 1).await;
    call.abort();
    drop(killed);

    let next = bench.client();
    let refused = next.unstage(unstage("v")).await;
    assert!(
        matches!(refused, Err(MountError::UnderWay { .. })),
        "{refused:?}"
    );
    bench.mounter.hold(false);
    until(|| bench.mounter.ended() == ["unstage v"]).await;
    assert_eq!(next.unstage(unstage("v")).await, Ok(()));
}

#[tokio::test]
async fn a_client_is_refused_work_it_no_longer_waits_for() {
    let bench = Bench::start();
    bench.mounter.hold(true);
    let client = bench.client();
    let call = begin(&client, "v");
    until(|| bench.mounter.calls().len() == 1).await;
    call.abort();
    let _ = call.await;
    // The server may notice the disconnect a moment later; until then the two are calls of one client process, which holds the claims of both, and
    // the next one is begun too.
    let refused = loop {
        let begun = bench.mounter.calls().len();
        let next = tokio::spawn({
            let client = client.clone();
            async move { client.unstage(unstage("v")).await }
        });
        until(|| next.is_finished() || bench.mounter.calls().len() > begun).await;
        if bench.mounter.calls().len() == begun {
            break next.await.unwrap();
        }
        next.abort();
        let _ = next.await;
    };
    assert!(
        matches!(refused, Err(MountError::UnderWay { .. })),
        "{refused:?}"
    );
    bench.mounter.hold(false);
    until(|| bench.mounter.ended() == bench.mounter.calls()).await;
    assert_eq!(client.unstage(unstage("v")).await, Ok(()));
}

#[tokio::test]
async fn a_copy_of_an_earlier_client_keeps_its_entries_from_the_next() {
    let bench = Bench::start();
    bench.mounter.hold(true);
    let clone = PoolCall::CloneDirectory {
        pool: "main".to_owned(),
        source: "a".to_owned(),
        target: "b".to_owned(),
    };
    let killed = bench.client();
    let call = tokio::spawn(async move { killed.pool(driver(), clone).await });
    until(|| bench.mounter.calls().len() == 1).await;
    call.abort();
    let remove = |path: &str| PoolCall::RemoveDirectory {
        pool: "main".to_owned(),
        path: path.to_owned(),
    };
    let next = bench.client();
    for path in ["a", "b", "b/c"] {
        let refused = next.pool(driver(), remove(path)).await;
        assert!(matches!(refused, Err(MountError::UnderWay { .. })));
    }
    bench.mounter.hold(false);
    let other = next.pool(driver(), remove("c")).await;
    assert!(matches!(other, Err(MountError::NoSpace { .. })));
}

#[tokio::test]
async fn a_mounter_that_is_gone_is_unreachable_until_it_is_back() {
    let mut bench = Bench::start();
    let client = bench.client();
    assert_eq!(client.boot_id(), None);
    client.unstage(unstage("v")).await.unwrap();
    let first = client.boot_id().unwrap();

    let stopped = bench.stop().await;
    assert_eq!(stopped, 0);
    let Err(MountError::Unreachable(reason)) = client.unstage(unstage("v")).await else {
        panic!("it answered");
    };
    assert!(reason.contains("wasmount mounter"), "{reason}");
    assert!(!bench.socket().exists());

    bench.restart();
    // The kept connection is not usable any more; no call fails because of it.
    client.unstage(unstage("v")).await.unwrap();
    assert_ne!(client.boot_id(), Some(first));
}

#[tokio::test]
async fn a_call_whose_mounter_dies_is_unreachable_and_may_be_repeated() {
    let mut bench = Bench::apart();
    bench.mounter.hold(true);
    let client = bench.client();
    let call = begin(&client, "v");
    until(|| bench.mounter.calls().len() == 1).await;
    bench.kill().await;
    let lost = call.await.unwrap();
    assert!(
        matches!(lost, Err(MountError::Unreachable { .. })),
        "{lost:?}"
    );
    bench.mounter.hold(false);
    bench.restart();
    client.unstage(unstage("v")).await.unwrap();
    assert_eq!(bench.mounter.ended().len(), 1);
}

#[tokio::test]
async fn what_outlasts_the_grace_period_is_counted() {
    let mut bench = Bench::start();
    bench.mounter.hold(true);
    let _call = begin(&bench.client(), "v");
    until(|| bench.mounter.calls().len() == 1).await;
    assert_eq!(bench.stop().await, 1);
}

#[tokio::test]
async fn a_request_at_shutdown_is_answered_within_the_grace_period() {
    let mut bench = Bench::start();
    bench.mounter.hold(true);
    let client = bench.client();
    let call = begin(&client, "v");
    until(|| bench.mounter.calls().len() == 1).await;
    let mounter = bench.mounter.clone();
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        mounter.hold(false);
    });
    assert_eq!(bench.stop().await, 0);
    assert_eq!(call.await.unwrap(), Ok(()));
}

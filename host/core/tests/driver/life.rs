//! Recovery and shutdown.

use crate::common::*;
use crate::script::{Act, PATIENCE, trapped};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;
use wasmount_core::backend::BackendError;
use wasmount_core::code::Code;
use wasmount_core::driver::Role;
use wasmount_core::error::Error;

/// Longer than any test waits for a cancelled call.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn recovery_holds_its_volumes_and_all_others_are_served() {
    let bench = full(&[]);
    let unsettled: Vec<_> = (0..6).map(|n| volume_id(&format!("v{n}"))).collect();
    *bench.mounter.unsettled.lock().unwrap() = unsettled;
    let gate = bench.mounter.script.hold("recover");
    assert_eq!(bench.driver.recover().await.unwrap(), 6);

    for n in 0..6 {
        let request = stage(&format!("v{n}"));
        let early = bench.driver.node_stage_volume(incoming(), request).await;
        assert_eq!(early.unwrap_err().code(), Code::Aborted);
    }
    let other = bench.driver.node_stage_volume(incoming(), stage("other"));
    other.await.unwrap();

    gate.add_permits(6);
    for n in 0..6 {
        let request = stage(&format!("v{n}"));
        let driver = &bench.driver;
        retried(|| driver.node_stage_volume(incoming(), request.clone())).await;
    }
    assert_eq!(bench.mounter.script.count("recover"), 6);
}

#[tokio::test]
async fn a_recovery_that_fails_gives_its_volume_back() {
    let bench = full(&[]);
    *bench.mounter.unsettled.lock().unwrap() = vec![volume_id("v")];
    bench.mounter.script.on("recover", Act::Fail(trapped()));
    assert_eq!(bench.driver.recover().await.unwrap(), 1);
    assert_eq!(bench.driver.shutdown(GRACE).await, 0);
    assert_eq!(bench.mounter.script.count("recover"), 1);
}

#[tokio::test]
async fn shutdown_rejects_changes_and_answers_reads() {
    let bench = full(&[]);
    let gate = bench.backend.script.hold("create_volume");
    let driver = bench.driver.clone();
    let running = tokio::spawn(async move { driver.create_volume(incoming(), create("x")).await });
    bench.backend.script.arrived("create_volume", 1).await;
    let driver = bench.driver.clone();
    let shutdown = tokio::spawn(async move { driver.shutdown(GRACE).await });
    tokio::task::yield_now().await;

    let refused = bench.driver.create_volume(incoming(), create("y"));
    let refused = timeout(PATIENCE, refused).await.unwrap();
    assert!(matches!(refused, Err(Error::ShuttingDown)));
    let read = bench.driver.node_get_volume_stats(incoming(), stats("v"));
    assert!(read.await.is_ok());
    assert!(bench.driver.probe(incoming()).await.unwrap());

    gate.add_permits(1);
    assert!(running.await.unwrap().is_ok());
    assert_eq!(shutdown.await.unwrap(), 0);
    assert_eq!(bench.backend.script.count("create_volume"), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_what_does_not_end_within_the_grace_period() {
    let bench = full(&[]);
    bench
        .backend
        .script
        .on("create_volume", Act::UntilCancelled);
    let driver = bench.driver.clone();
    let running = tokio::spawn(async move { driver.create_volume(incoming(), create("x")).await });
    bench.backend.script.arrived("create_volume", 1).await;
    assert_eq!(bench.driver.shutdown(GRACE).await, 1);
    let stopped = running.await.unwrap();
    assert!(matches!(
        stopped,
        Err(Error::Backend(BackendError::Cancelled))
    ));
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_ever() {
    let bench = full(&[]);
    *bench.mounter.unsettled.lock().unwrap() = vec![volume_id("v")];
    bench.mounter.script.on("recover", Act::Hang);
    bench.driver.recover().await.unwrap();
    assert_eq!(bench.driver.shutdown(GRACE).await, 1);
}

#[tokio::test]
async fn a_standby_driver_identifies_itself_and_does_nothing() {
    let bench = full(&[]);
    let driver = &bench.driver;
    driver.stand_by();
    assert!(!driver.probe(incoming()).await.unwrap(), "it is not ready");
    assert_eq!(driver.plugin_info().name, *driver.name());
    let refused = driver.create_volume(incoming(), create("x")).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::Standby), "{refused}");
    assert_eq!(refused.code(), Code::Unavailable);
    assert_eq!(bench.backend.script.count("create_volume"), 0);

    let lasts = Arc::new(AtomicBool::new(true));
    let term = Arc::clone(&lasts);
    driver.work_while(move || term.load(Ordering::SeqCst));
    assert!(driver.probe(incoming()).await.unwrap());
    driver.create_volume(incoming(), create("x")).await.unwrap();

    // The driver is not notified that another host's turn has begun.
    lasts.store(false, Ordering::SeqCst);
    assert!(!driver.probe(incoming()).await.unwrap(), "it is not ready");
    let refused = driver.create_volume(incoming(), create("y")).await;
    assert!(matches!(refused, Err(Error::Standby)));
}

#[tokio::test]
async fn sidecars_wait_only_for_the_first_load_of_a_plugin() {
    let bench = bench_without_plugin(Role::All, &[]);
    let driver = &bench.driver;
    assert!(
        !driver.probe(incoming()).await.unwrap(),
        "it may still load"
    );
    driver.set_fault("its file is missing".to_owned());
    assert!(
        driver.probe(incoming()).await.unwrap(),
        "no restart mends it"
    );
}

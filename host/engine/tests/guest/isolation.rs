//! Calls do not affect one another: no state of one remains for the next, and a call that computes without end does not block others.

use crate::harness::{Fixture, volume_id};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::backend::{Backend, BackendError};
use wasmount_core::call::Call;
use wasmount_core::code::Code;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;

#[tokio::test]
async fn nothing_of_a_call_is_left_for_the_next() {
    let fixture = Fixture::misbehave().await;
    for _ in 0..3 {
        fixture.create("global").await.unwrap();
    }
}

#[tokio::test]
async fn a_trap_ends_one_call_and_not_the_next() {
    let fixture = Fixture::misbehave().await;
    assert!(matches!(
        fixture.create("trap").await,
        Err(BackendError::Trapped { .. })
    ));
    fixture.create("").await.unwrap();
}

#[tokio::test]
async fn a_removal_outlives_its_guest_as_a_job_of_the_call() {
    let fixture = Fixture::misbehave().await;
    let slow = fixture.memory.hold();
    let call = Call {
        deadline: Instant::now() + Duration::from_millis(300),
        ..fixture.call(Rpc::DeleteVolume)
    };
    let stopped = fixture
        .backend
        .delete_volume(&call, volume_id("behave.slow"));
    assert!(matches!(
        stopped.await,
        Err(BackendError::HostFailed {
            code: Code::DeadlineExceeded,
            ..
        })
    ));
    let is_removed = || {
        fixture
            .memory
            .events()
            .iter()
            .any(|event| event == "removed")
    };
    assert!(!is_removed());
    assert_eq!(call.jobs.len(), 1);
    drop(slow);
    call.jobs.close();
    call.jobs.wait().await;
    assert!(is_removed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spinning_guests_on_all_threads_delay_no_call() {
    let limits = Limits {
        cpu: Duration::from_millis(500),
        ..Limits::default()
    };
    let fixture = Arc::new(Fixture::with(limits).await);
    let hogs: Vec<_> = (0..2)
        .map(|_| {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move { fixture.create("spin").await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    for _ in 0..10 {
        fixture.create("").await.unwrap();
    }
    assert!(hogs.iter().all(|hog| !hog.is_finished()));
    for hog in hogs {
        assert!(matches!(
            hog.await.unwrap(),
            Err(BackendError::OverLimit { .. })
        ));
    }
}

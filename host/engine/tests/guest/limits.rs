//! Each limit of a backend, respected and exceeded.

use crate::harness::{Fixture, create_volume};
use std::time::Duration;
use wasmount_core::backend::{Backend, BackendError};
use wasmount_core::call::Used;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;

/// The limit that stopped the call.
fn limit(answer: Result<impl std::fmt::Debug, BackendError>) -> String {
    match answer {
        Err(BackendError::OverLimit {
            plugin,
            function: "create-volume",
            limit,
        }) => {
            assert_eq!(plugin.name, "misbehave.wasmount.io");
            assert!(plugin.digest.starts_with("sha256:"), "{plugin}");
            limit
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn all_limits_obeyed() {
    assert!(Fixture::misbehave().await.create("").await.is_ok());
}

#[tokio::test]
async fn cpu_violated() {
    let cpu = Duration::from_millis(50);
    let fixture = Fixture::with(Limits {
        cpu,
        ..Limits::default()
    })
    .await;
    assert_eq!(limit(fixture.create("spin").await), "limits.cpu (0.05 s)");
}

#[tokio::test]
async fn memory_violated() {
    let fixture = Fixture::with(Limits {
        memory_bytes: 8 << 20,
        ..Limits::default()
    })
    .await;
    assert_eq!(
        limit(fixture.create("allocate").await),
        "limits.memory (8388608 bytes)"
    );
}

#[tokio::test]
async fn host_call_bytes_violated() {
    let fixture = Fixture::misbehave().await;
    for behaviour in ["big-host-call", "huge-answer"] {
        let limit = limit(fixture.create(behaviour).await);
        assert_eq!(limit, "limits.hostCallBytes (4194304)", "{behaviour}");
    }
}

#[tokio::test]
async fn handles_violated() {
    let fixture = Fixture::with(Limits {
        handles: 0,
        ..Limits::default()
    })
    .await;
    assert!(fixture.create("").await.is_ok());
    // Standard output is a handle.
    assert_eq!(limit(fixture.create("flood").await), "limits.handles (0)");
}

#[tokio::test]
async fn cpu_time_is_counted_over_all_calls_of_an_rpc() {
    let limits = Limits {
        cpu: Duration::from_secs(10),
        ..Limits::default()
    };
    let fixture = Fixture::with(limits).await;
    let call = fixture.call(Rpc::CreateVolume);
    let create = || fixture.backend.create_volume(&call, create_volume(""));
    create().await.unwrap();
    let used = call.used.so_far().cpu;
    assert!(used > Duration::ZERO);
    create().await.unwrap();
    assert!(call.used.so_far().cpu > used);
    call.used.add(Used {
        cpu: Duration::from_secs(10),
        ..Used::default()
    });
    match create().await {
        Err(BackendError::OverLimit { limit, .. }) => assert_eq!(limit, "limits.cpu (10 s)"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn time_obeyed() {
    let mut fixture = Fixture::misbehave().await;
    fixture.budget = Duration::from_secs(30);
    assert!(fixture.create("").await.is_ok());
}

#[tokio::test]
async fn time_violated_by_waiting_and_by_computing() {
    let mut fixture = Fixture::misbehave().await;
    fixture.budget = Duration::from_millis(100);
    for behaviour in ["sleep", "spin"] {
        match fixture.create(behaviour).await {
            Err(BackendError::OutOfTime {
                function: "create-volume",
                seconds: 1,
                ..
            }) => {}
            other => panic!("{behaviour}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn cancellation_obeyed() {
    let fixture = Fixture::misbehave().await;
    fixture.cancelled.cancel();
    assert!(fixture.create("wait-until-cancelled").await.is_ok());
}

#[tokio::test]
async fn cancellation_violated() {
    let fixture = Fixture::misbehave().await;
    fixture.cancelled.cancel();
    assert_eq!(fixture.create("sleep").await, Err(BackendError::Cancelled));
}

#[tokio::test]
async fn concurrency_obeyed_and_violated() {
    let limits = Limits {
        concurrency: 1,
        ..Limits::default()
    };
    let fixture = Fixture::with(limits).await;
    let (first, second) = tokio::join!(fixture.create(""), fixture.create(""));
    assert!(first.is_ok() && second.is_ok());

    // The waiting call must give up well before the other releases its memory.
    let (patience, time) = (Duration::from_millis(100), Duration::from_secs(1));
    let (running, waiting) = tokio::join!(
        fixture.create_within(time, "sleep"),
        fixture.create_within(patience, "")
    );
    assert!(matches!(running, Err(BackendError::OutOfTime { .. })));
    assert_eq!(waiting, Err(BackendError::Busy { limit: 1 }));
}

#[tokio::test]
async fn what_a_trap_says_names_the_plugin_and_the_reason() {
    let fixture = Fixture::misbehave().await;
    for (behaviour, expected) in [
        ("trap", "as asked"),
        ("recurse", "call stack exhausted"),
        ("exit", "it exited with status"),
    ] {
        match fixture.create(behaviour).await {
            Err(BackendError::Trapped {
                plugin,
                function: "create-volume",
                reason,
            }) => {
                assert_eq!(&plugin, fixture.backend.label());
                assert!(reason.contains(expected), "{behaviour}: {reason}");
            }
            other => panic!("{behaviour}: {other:?}"),
        }
    }
}

//! Versions that fail after their admission: rolled back once without a command, and not activated again without one.

use crate::bench::*;
use crate::written;
use jiff::Timestamp;
use std::fs;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use wasmount_core::names::VolumeId;
use wasmount_core::status::{HeldBy, Phase};
use wasmount_versions::{SwapRequest, VersionEvent};

/// The first version of each test serves well, the second one has trapped as often as the limit.
async fn failed(bench: &Bench) {
    bench.set_desired(trial("good", 3, "60s")).await;
    bench.calls().await;
    bench.set_desired(trial("bad", 3, "60s")).await;
    assert_eq!(bench.number(), 3);
    for _ in 0..3 {
        bench.traps().await;
    }
    bench.until_serves(2).await;
}

#[tokio::test]
async fn a_version_that_always_traps_is_rolled_back() {
    let bench = Bench::serving().await;
    let mut events = bench.reconciler.events();
    failed(&bench).await;
    let status = bench.reconciler.status();
    assert_eq!(status.phase, Phase::RolledBack);
    let held = status.held.unwrap();
    assert_eq!(held.by, HeldBy::Faults { failed: 3 });
    assert!(
        held.reason.contains("version 3 had 3 faults") && held.reason.contains("trapped"),
        "{}",
        held.reason
    );
    assert!(bench.is_rolled_back(3));
    bench.calls().await;
    let rolled_back = timeout(PATIENCE, async {
        loop {
            if let VersionEvent::RolledBack {
                from,
                to,
                by_itself,
                ..
            } = &*events.recv().await.unwrap()
            {
                return (*from, to.number, *by_itself);
            }
        }
    });
    assert_eq!(rolled_back.await.unwrap(), (3, 2, true));
}

#[tokio::test]
async fn a_blocked_rollback_is_taken_once_possible() {
    let bench = Bench::serving().await;
    bench.set_desired(trial("good", 3, "60s")).await;
    bench.calls().await;
    bench.set_desired(trial("bad", 3, "60s")).await;
    let mut events = bench.reconciler.events();
    let history = written::next(&bench.folder.path().join("versions"));
    let before = fs::read(&history).unwrap();
    fs::remove_file(&history).unwrap();
    // The disk accepts no write.
    fs::create_dir(&history).unwrap();
    for _ in 0..3 {
        bench.traps().await;
    }
    let said = timeout(PATIENCE, async {
        loop {
            if let VersionEvent::CannotRollBack { number, reason } = &*events.recv().await.unwrap()
            {
                return (*number, reason.clone());
            }
        }
    });
    let (number, reason) = said.await.unwrap();
    assert_eq!(number, 3);
    assert!(reason.contains("repair the disk"), "{reason}");
    assert_eq!(bench.number(), 3);
    fs::remove_dir(&history).unwrap();
    fs::write(&history, before).unwrap();
    for _ in 0..3 {
        bench.traps().await;
    }
    bench.until_serves(2).await;
    assert!(bench.is_rolled_back(3));
    bench.calls().await;
}

#[tokio::test]
async fn a_failed_version_does_not_return_by_itself() {
    let bench = Bench::serving().await;
    failed(&bench).await;
    bench.set_desired(trial("bad", 3, "60s")).await;
    assert_eq!(bench.number(), 2);
    let bench = bench.restarted(trial("bad", 3, "60s")).await;
    let status = bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!((bench.number(), status.phase), (2, Phase::RolledBack));
    assert!(
        status
            .held
            .unwrap()
            .reason
            .contains("version 3 had 3 faults")
    );
}

/// A version that was swapped to by hand and is not proven yet, after a restart. The document means the version before.
async fn pinned_and_restarted(window: &str) -> Bench {
    let bench = Bench::serving().await;
    bench.set_desired(trial("good", 3, window)).await;
    bench.calls().await;
    let pinned = SwapRequest {
        desired: Some(bench.desired(trial("pinned", 3, window))),
        ..SwapRequest::default()
    };
    assert_eq!(bench.reconciler.swap(pinned).await.unwrap().now.number, 3);
    let bench = bench.restarted(trial("good", 3, window)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(bench.number(), 3);
    bench
}

#[tokio::test]
async fn a_version_swapped_by_hand_is_on_trial_after_restart() {
    let bench = pinned_and_restarted("60s").await;
    for _ in 0..3 {
        bench.traps().await;
    }
    bench.until_serves(2).await;
    assert!(bench.is_rolled_back(3));

    let bench = pinned_and_restarted("1s").await;
    bench.calls().await;
    bench
        .until("it is proven", |it| it.version.as_ref().unwrap().proven)
        .await;
    assert_eq!(bench.number(), 3);
}

#[tokio::test]
async fn a_rollback_target_is_on_no_trial_after_restart() {
    let bench = Bench::serving().await;
    bench.set_desired(trial("good", 2, "60s")).await;
    bench.traps().await;
    bench.set_desired(trial("other", 2, "60s")).await;
    bench.back(None).await.unwrap();
    let bench = bench.restarted(trial("other", 2, "60s")).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    for _ in 0..4 {
        bench.traps().await;
    }
    sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.number(), 2);
}

#[tokio::test]
async fn another_document_or_a_swap_ends_the_rollback() {
    let bench = Bench::serving().await;
    failed(&bench).await;
    let status = bench.set_desired(trial("mended", 3, "60s")).await;
    assert_eq!((bench.number(), status.phase), (4, Phase::Serving));
    assert_eq!(status.held, None);

    let bench = Bench::serving().await;
    failed(&bench).await;
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!(
        outcome.now.number, 4,
        "the same code and settings, as asked"
    );
}

#[tokio::test]
async fn the_cause_of_a_rollback_is_reported_until_a_new_revision() {
    let bench = Bench::serving().await;
    bench.set_desired(trial("good", 3, "60s")).await;
    bench.calls().await;
    let by_hand = SwapRequest {
        desired: Some(bench.desired(trial("bad", 3, "60s"))),
        ..SwapRequest::default()
    };
    bench.reconciler.swap(by_hand).await.unwrap();
    for _ in 0..3 {
        bench.traps().await;
    }
    bench.until_serves(2).await;
    // The document means the version that serves, as it always did.
    let status = bench.set_desired(trial("good", 3, "60s")).await;
    assert_eq!(status.phase, Phase::RolledBack);
    assert_eq!(status.held.unwrap().by, HeldBy::Faults { failed: 3 });
    let status = bench.set_desired(trial("other", 3, "60s")).await;
    assert_eq!((status.phase, status.held), (Phase::Serving, None));
}

#[tokio::test]
async fn a_restored_version_is_not_rolled_back_again() {
    let bench = Bench::serving().await;
    failed(&bench).await;
    for _ in 0..5 {
        bench.traps().await;
    }
    sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.number(), 2);
}

#[tokio::test]
async fn without_a_rollback_target_the_version_stays() {
    let bench = Bench::starting("misbehave", trial("first", 2, "60s")).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    let mut events = bench.reconciler.events();
    for _ in 0..2 {
        bench.traps().await;
    }
    let event = timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert!(
        matches!(&*event, VersionEvent::CannotRollBack { number: 1, .. }),
        "{event:?}"
    );
    assert_eq!(bench.number(), 1);
    bench.calls().await;
}

#[tokio::test]
async fn a_version_is_proven_after_a_window_without_faults() {
    let bench = Bench::serving().await;
    bench.set_desired(trial("one", 2, "1s")).await;
    bench.set_desired(trial("two", 2, "1s")).await;
    bench.calls().await;
    bench
        .until("it is proven", |it| it.version.as_ref().unwrap().proven)
        .await;
    for _ in 0..4 {
        bench.traps().await;
    }
    sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.number(), 3);
}

#[tokio::test]
async fn a_hanging_version_is_not_proven_by_abandoned_calls() {
    let bench = Bench::serving().await;
    bench.set_desired(trial("hangs", 2, "1s")).await;
    for _ in 0..3 {
        let id = VolumeId::parse("id", "wait-until-cancelled").unwrap();
        let call = bench.driver.controller_get_volume(incoming(), id);
        assert!(timeout(Duration::from_millis(500), call).await.is_err());
    }
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(bench.driver.calls_answered(), 0);
    assert!(!bench.record(2).proven);
    bench.calls().await;
    bench
        .until("it is proven", |it| it.version.as_ref().unwrap().proven)
        .await;
}

#[tokio::test]
async fn answers_and_rare_faults_do_not_end_a_trial() {
    let bench = Bench::serving().await;
    bench.set_desired(trial("one", 3, "60s")).await;
    bench.set_desired(trial("two", 3, "60s")).await;
    for _ in 0..2 {
        bench.traps().await;
    }
    for _ in 0..5 {
        bench.calls().await;
    }
    sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.number(), 3);
}

#[tokio::test]
async fn the_last_fault_of_the_running_version_is_shown() {
    let bench = Bench::serving().await;
    let status = bench.set_desired(trial("one", 3, "60s")).await;
    assert_eq!(status.last_fault, None);
    let before = Timestamp::now();
    bench.traps().await;
    let shown = bench.until("it is shown", |it| it.last_fault.is_some());
    let at = shown.await.last_fault.unwrap();
    assert!(before < at && at.as_second() % 10 == 0, "{at}");
    // It is not of the next version.
    let status = bench.set_desired(trial("two", 3, "60s")).await;
    assert_eq!(status.last_fault, None);
}

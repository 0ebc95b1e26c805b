//! `kill -9` of one process, of the other, and of both: what was answered holds, retries succeed, nothing is left behind.

use crate::mounter::{ROOT, assert_nothing_left, mounting, serving};
use futures::future::join_all;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::Code;
use wasmount_tests::host::Host;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, code, patiently};
use wasmount_tests::requests;

/// Codes after which kubelet and the sidecars try again.
const AGAIN: [Code; 3] = [Code::Unavailable, Code::Aborted, Code::DeadlineExceeded];
/// The same, and what a client makes of a connection that was cut.
const CUT: [Code; 6] = [
    Code::Unavailable,
    Code::Aborted,
    Code::DeadlineExceeded,
    Code::Unknown,
    Code::Internal,
    Code::Cancelled,
];
/// Lives at a time.
const LIVES: usize = 8;
/// How often each of them begins anew.
const ROUNDS: u64 = 6;
/// How often something is killed meanwhile.
const KILLS: u64 = 12;
/// How long all of it may take. Generous: other tests share the machine.
const LONG: Duration = Duration::from_secs(240);

fn kill_mounter(host: &mut Host) {
    mounting(host).process.kill_9().unwrap();
}

#[tokio::test]
async fn privileged_volumes_outlive_their_mounter() {
    let (mut host, orchestrator) = serving(ROOT).await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();

    kill_mounter(&mut host);
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    for answer in [
        code(&orchestrator.publish(&volume).await),
        code(&orchestrator.unpublish(&volume).await),
        code(&orchestrator.unstage(&volume).await),
        code(
            &orchestrator
                .create(requests::create("other", VOLUME_BYTES))
                .await,
        ),
    ] {
        assert_eq!(answer, Code::Unavailable);
    }
    assert!(host.log().contains("wasmount mounter"), "{}", host.log());

    mounting(&mut host).restart().unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_killed_host_finds_its_volumes_in_the_mounter() {
    let (mut host, orchestrator) = serving(ROOT).await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();
    for both in [false, true] {
        host.kill_9().unwrap();
        if both {
            mounting(&mut host).restart().unwrap();
        }
        host.restart().unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        orchestrator.set_up(&volume).await.unwrap();
        assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    }
    let orchestrator = host.orchestrator().await.unwrap();
    patiently(&AGAIN, || orchestrator.tear_down(&volume))
        .await
        .unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_mounter_that_comes_late_serves_from_then_on() {
    let (mut host, orchestrator) = serving(ROOT).await;
    let volume = orchestrator.created("pvc").await.unwrap();
    drop(orchestrator);
    host.terminate().unwrap();
    kill_mounter(&mut host);
    // Its sockets are there, and its plugin, though nothing can be mounted.
    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    assert_eq!(code(&orchestrator.stage(&volume).await), Code::Unavailable);
    mounting(&mut host).restart().unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_both_end_cleanly_on_sigterm() {
    let (mut host, orchestrator) = serving(ROOT).await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    drop(orchestrator);
    assert!(host.terminate().unwrap().success());
    let socket = mounting(&mut host).options.socket.clone();
    assert!(mounting(&mut host).process.terminate().unwrap().success());
    assert!(!socket.exists(), "its socket stayed");
    // What is mounted stays mounted.
    assert_eq!(host.mounts().unwrap().len(), 2);
    mounting(&mut host).restart().unwrap();
    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

async fn live(orchestrator: Orchestrator, again: &'static [Code], name: String) {
    let request = || orchestrator.create(requests::create(&name, VOLUME_BYTES));
    let (id, _) = patiently(again, request).await.unwrap();
    let volume = orchestrator.place(&name, id).unwrap();
    patiently(again, || orchestrator.stage(&volume))
        .await
        .unwrap();
    patiently(again, || orchestrator.publish(&volume))
        .await
        .unwrap();
    volume.write(&name).unwrap();
    assert_eq!(volume.read_at(&volume.staging).unwrap(), name);
    patiently(again, || orchestrator.unpublish(&volume))
        .await
        .unwrap();
    assert!(!volume.target.exists(), "{name}: the target stayed");
    patiently(again, || orchestrator.unstage(&volume))
        .await
        .unwrap();
    patiently(again, || orchestrator.delete(&volume.id))
        .await
        .unwrap();
}

/// Lives that repeat what these codes answer, while `kill` kills.
async fn lives_under(again: &'static [Code], kill: impl Fn(&mut Host, u64)) {
    let (mut host, orchestrator) = serving(ROOT).await;
    // On threads of their own: killing blocks this one.
    let lives = tokio::spawn(async move {
        for round in 0..ROUNDS {
            let names = (0..LIVES).map(|number| format!("pvc-{round}-{number}"));
            join_all(names.map(|name| live(orchestrator.clone(), again, name))).await;
        }
    });
    for number in 0..KILLS {
        // Moments that fall into different calls each time.
        sleep(Duration::from_millis(20 + 37 * number % 150)).await;
        kill(&mut host, number);
    }
    timeout(LONG, lives).await.unwrap().unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lifecycles_survive_kills_of_their_mounter() {
    lives_under(&AGAIN, |host, _| mounting(host).restart().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lifecycles_survive_kills_of_host_and_mounter() {
    lives_under(&CUT, |host, number| {
        if number % 2 == 0 {
            host.kill_9().unwrap();
            mounting(host).restart().unwrap();
        }
        host.restart().unwrap();
    })
    .await;
}

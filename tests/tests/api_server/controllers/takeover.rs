//! One controller works at a time, and whatever ends it, the next one knows all that it did.

use crate::controllers::replicas::Replicas;
use futures::future::join_all;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::Code;
use wasmount_control::Client;
use wasmount_control::messages::Delete;
use wasmount_csi::wire::csi::v1::ListVolumesRequest;
use wasmount_tests::idle::until_it_rests;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, code, patiently};
use wasmount_tests::requests;
use wasmount_tests::sanity::SanityRun;
use xtask::tools::CSI_SANITY_5_4;

/// Creates at the same time, when the leader is killed among them.
const AT_ONCE: usize = 8;

/// Volumes that each of them makes.
const VOLUMES: usize = 12;

/// After so many answers the leader is killed.
const KILLED_AFTER: usize = 20;

/// The driver of both.
const DRIVER: &str = "hostpath.wasmount.io";

/// Until a document that was changed must be followed. Generous: other tests share the machine.
const SERVED: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// All specs of csi-sanity 5.4.0.
const ALL_OF_5_4: usize = 91;

/// The one that does not work.
fn other(leader: usize) -> usize {
    1 - leader
}

async fn orchestrator(replicas: &Replicas, controller: usize) -> Orchestrator {
    let controller = &replicas.controllers[controller];
    controller.orchestrator().await.unwrap()
}

/// Creates a volume that may be there; its id, and the code if there is none.
async fn create(orchestrator: &Orchestrator, name: &str) -> Result<String, Code> {
    let request = requests::create(name, VOLUME_BYTES);
    let created = orchestrator.create(request).await;
    created.map(|(id, _)| id).map_err(|status| status.code())
}

async fn listed(orchestrator: &Orchestrator) -> usize {
    let list = || async {
        let mut controller = orchestrator.clients().controller;
        controller.list_volumes(ListVolumesRequest::default()).await
    };
    let answer = patiently(&[Code::Unavailable], list).await.unwrap();
    answer.into_inner().entries.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_real_api_server_elects_one_controller() {
    let replicas = Replicas::start(&[]).await;
    let leader = replicas.leader().await;
    let working = orchestrator(&replicas, leader).await;
    let id = create(&working, "v").await.unwrap();
    let standing_by = orchestrator(&replicas, other(leader)).await;
    for answer in [
        create(&standing_by, "v").await,
        create(&standing_by, "w").await,
    ] {
        assert_eq!(answer, Err(Code::Unavailable));
    }
    assert_eq!(code(&standing_by.delete(&id).await), Code::Unavailable);
    assert_eq!(listed(&working).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_controllers_and_a_node_without_calls_rest() {
    let replicas = Replicas::start(&[]).await;
    let leader = replicas.leader().await;
    create(&orchestrator(&replicas, leader).await, "v")
        .await
        .unwrap();
    let hosts = replicas.controllers.iter().chain([&replicas.node]);
    hosts.for_each(|host| until_it_rests(host.id()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_stopped_leader_frees_its_real_api_server_lease() {
    let mut replicas = Replicas::start(&[]).await;
    let leader = replicas.leader().await;
    let working = orchestrator(&replicas, leader).await;
    let id = create(&working, "v").await.unwrap();
    assert!(replicas.controllers[leader].terminate().unwrap().success());
    let next = replicas.leader().await;
    assert_eq!(next, other(leader));
    // Given back, not run out.
    let log = replicas.controllers[leader].log();
    assert!(!log.contains("lease not released"), "{log}");
    let next = orchestrator(&replicas, next).await;
    assert_eq!(create(&next, "v").await, Ok(id));
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_moved_driver_works_with_a_real_api_server() {
    let mut replicas = Replicas::start(&[]).await;
    let leader = replicas.leader().await;
    let working = orchestrator(&replicas, leader).await;
    let id = create(&working, "v").await.unwrap();
    let admin = Client::new(replicas.controllers[leader].data().join("admin.sock"));
    let deleted = admin.delete(DRIVER, &Delete { force: false }).await;
    assert!(deleted.unwrap().changed);
    let next = other(leader);
    replicas.works(next).await;
    let taken = orchestrator(&replicas, next).await;
    assert_eq!(create(&taken, "v").await, Ok(id.clone()));
    // Served again, it stands by, and has its turn.
    replicas.change_document();
    let begin = Instant::now();
    while !replicas.controllers[leader].socket().exists() {
        assert!(begin.elapsed() < SERVED, "it is not served again");
        sleep(LOOK).await;
    }
    assert!(replicas.controllers[next].terminate().unwrap().success());
    replicas.works(leader).await;
    let again = orchestrator(&replicas, leader).await;
    assert_eq!(create(&again, "v").await, Ok(id));
    let log = replicas.controllers[leader].log();
    assert!(!log.contains("cannot be migrated"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_killed_leader_keeps_real_api_server_records() {
    let mut replicas = Replicas::start(&[]).await;
    let leader = replicas.leader().await;
    let working = orchestrator(&replicas, leader).await;
    let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|worker| {
            let (working, answered) = (working.clone(), answered.clone());
            tokio::spawn(async move {
                for number in 0..VOLUMES {
                    let name = format!("{worker}-{number}");
                    let Ok(id) = create(&working, &name).await else {
                        return;
                    };
                    let _ = answered.send((name, id));
                }
            })
        })
        .collect();
    drop(answered);
    let mut acknowledged = BTreeMap::new();
    while acknowledged.len() < KILLED_AFTER {
        let (name, id) = answers.recv().await.unwrap();
        acknowledged.insert(name, id);
    }
    replicas.controllers[leader].kill_9().unwrap();
    join_all(workers).await;
    while let Some((name, id)) = answers.recv().await {
        acknowledged.insert(name, id);
    }
    assert!(
        acknowledged.len() < AT_ONCE * VOLUMES,
        "it was not killed at work"
    );

    let next = replicas.leader().await;
    assert_eq!(next, other(leader));
    let next = orchestrator(&replicas, next).await;
    let mut ids = BTreeMap::new();
    for worker in 0..AT_ONCE {
        for number in 0..VOLUMES {
            let name = format!("{worker}-{number}");
            let id = patiently(&[Code::Unavailable, Code::Aborted], || async {
                next.create(requests::create(&name, VOLUME_BYTES)).await
            });
            let (id, _) = id.await.unwrap();
            if let Some(before) = acknowledged.get(&name) {
                assert_eq!(&id, before, "{name} was made twice");
            }
            ids.insert(id, name);
        }
    }
    assert_eq!(ids.len(), AT_ONCE * VOLUMES, "two names have one volume");
    assert_eq!(listed(&next).await, AT_ONCE * VOLUMES);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_leader_without_its_real_api_server_ends() {
    let mut replicas = Replicas::start(&[]).await;
    let leader = replicas.leader().await;
    let working = orchestrator(&replicas, leader).await;
    let id = create(&working, "v").await.unwrap();
    replicas.ways[leader].cut();
    // That never two are ready is held by `leader`.
    let next = loop {
        let seen = replicas.leader().await;
        if seen != leader {
            break seen;
        }
    };
    let log = replicas.controllers[leader].log();
    assert!(log.contains("leadership lost"), "{log}");
    let next = orchestrator(&replicas, next).await;
    assert_eq!(create(&next, "v").await, Ok(id));
    // Started again, as kubelet would, it stands by.
    replicas.ways[leader].mend();
    replicas.controllers[leader].restart().unwrap();
    assert_eq!(replicas.leader().await, other(leader));
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_frozen_leader_stops_at_its_real_api_server() {
    let mut replicas = Replicas::start(&[]).await;
    let leader = replicas.leader().await;
    let working = orchestrator(&replicas, leader).await;
    let id = create(&working, "v").await.unwrap();
    let frozen = replicas.controllers[leader].id().try_into().unwrap();
    let frozen = Pid::from_raw(frozen).unwrap();
    kill_process(frozen, Signal::STOP).unwrap();
    // Its threads stop one after the other; until the last has, calls may be answered.
    let until_stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(frozen), until_stopped).unwrap();
    // They lie in its socket when it wakes, before it can have asked whether it still leads.
    let waiting: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            let working = working.clone();
            tokio::spawn(async move { create(&working, &format!("frozen-{number}")).await })
        })
        .collect();
    let next = other(leader);
    replicas.works(next).await;
    let next = orchestrator(&replicas, next).await;
    assert_eq!(create(&next, "v").await, Ok(id));
    kill_process(frozen, Signal::CONT).unwrap();
    for answer in join_all(waiting).await {
        let answer = answer.unwrap();
        assert!(answer.is_err(), "two lead: {answer:?}");
    }
    assert_eq!(listed(&next).await, 1);
    replicas.controllers[leader].kill_9().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_leader_with_a_real_api_server_passes_csi_sanity() {
    let replicas = Replicas::start(&["GET_SNAPSHOT"]).await;
    let leader = replicas.leader().await;
    for host in [&replicas.node, &replicas.controllers[leader]] {
        host.client().await.unwrap();
    }
    let outcome = SanityRun {
        tool: CSI_SANITY_5_4,
        endpoint: replicas.node.socket(),
        controller_endpoint: Some(replicas.controllers[leader].socket()),
        directory: &replicas.node.paths(),
        access_type: "mount",
        parameters: &[("kind", "image")],
        mutable_parameters: &[("atime", "false")],
    }
    .run()
    .unwrap();
    assert!(outcome.failed.is_empty(), "{:#?}", outcome.failed);
    let (passed, skipped) = (outcome.passed, outcome.skipped);
    assert_eq!(passed, ALL_OF_5_4, "skipped: {skipped:#?}");
}

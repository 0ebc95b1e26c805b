//! A whole life, and a hundred at once, served by a process that may do nothing.

use crate::mounter::{NOBODY, ROOT, assert_nothing_left, serving};
use futures::future::join_all;
use std::fs;
use tonic::Code;
use wasmount_tests::host::Host;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, code, patiently};
use wasmount_tests::requests;

/// Lives at a time: as many pods as kubelet runs on a node by default, all starting.
const LIVES: usize = 100;

/// The lines of `/proc/<host>/status` that begin so, without their names.
fn status(host: &Host, prefix: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{}/status", host.id())).unwrap();
    text.lines()
        .filter(|line| line.starts_with(prefix))
        .filter_map(|line| Some(line.split_once(':')?.1.trim().to_owned()))
        .collect()
}

async fn whole_life(user: u32) {
    let (host, orchestrator) = serving(user).await;
    // CapInh, CapPrm, CapEff, CapBnd, CapAmb.
    assert_eq!(status(&host, "Cap"), vec!["0".repeat(16); 5]);
    let [users] = status(&host, "Uid").try_into().unwrap();
    assert!(users.split_whitespace().all(|it| it == user.to_string()));

    let volume = orchestrator.created("pvc").await.unwrap();
    for _ in 0..2 {
        orchestrator.set_up(&volume).await.unwrap();
        let mounts = [volume.staging.as_path(), volume.target.as_path()];
        assert_eq!(host.mounts().unwrap(), mounts);
    }
    volume.write("kept").unwrap();
    assert_eq!(volume.read_at(&volume.staging).unwrap(), "kept");
    let stats = orchestrator.stats(&volume.id, &volume.target).await;
    assert_eq!(stats.unwrap().usage.len(), 2);
    let bytes = 2 * VOLUME_BYTES;
    let grown = orchestrator.expand(requests::expand(&volume.id, bytes));
    assert_eq!(grown.await.unwrap(), (bytes, false));
    let node = requests::node_expand(&volume.id, &volume.target, bytes);
    orchestrator.node_expand(node).await.unwrap();

    let outside = host.root().join("outside");
    let mut elsewhere = requests::publish(&volume.id, &volume.staging, &outside);
    elsewhere.target_path = outside.display().to_string();
    let refused = code(&orchestrator.publish_as(elsewhere).await);
    assert_eq!(refused, Code::InvalidArgument);

    orchestrator.tear_down(&volume).await.unwrap();
    assert_eq!(
        code(&orchestrator.is_known(&volume.id).await),
        Code::NotFound
    );
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_root_host_without_capabilities_serves() {
    whole_life(ROOT).await;
}

#[tokio::test]
async fn privileged_a_host_as_user_nobody_serves_a_lifecycle() {
    whole_life(NOBODY).await;
}

async fn live(orchestrator: &Orchestrator, name: String) {
    let busy = &[Code::Aborted, Code::Unavailable];
    let created = patiently(busy, || {
        orchestrator.create(requests::create(&name, VOLUME_BYTES))
    });
    let (id, _) = created.await.unwrap();
    let volume = orchestrator.place(&name, id).unwrap();
    patiently(busy, || orchestrator.set_up(&volume))
        .await
        .unwrap();
    volume.write(&name).unwrap();
    assert_eq!(volume.read_at(&volume.staging).unwrap(), name);
    orchestrator.tear_down(&volume).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_hundred_lives_at_once_end_well() {
    let (host, orchestrator) = serving(ROOT).await;
    let lives = (0..LIVES).map(|number| live(&orchestrator, format!("pvc-{number}")));
    join_all(lives).await;
    assert_nothing_left(&host);
}

//! A host without calls.

use crate::life::serving;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::idle::until_it_rests;
use wasmount_tests::root::needs_root;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_without_calls_does_not_wake() {
    let (host, orchestrator) = serving().await;
    // A guest has run.
    orchestrator.capacity().await.unwrap();
    until_it_rests(host.id()).unwrap();
}

/// The host asks its mounter every 2 s whether it answers, which is within the bound.
#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_and_its_mounter_do_not_wake() {
    needs_root();
    let mut host = Host::start(HostOptions {
        split: Some(0),
        ..HostOptions::default()
    })
    .unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    until_it_rests(host.id()).unwrap();
    until_it_rests(host.mounting().unwrap().process.id()).unwrap();
}

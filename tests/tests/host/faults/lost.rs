//! Directories and mounts that are gone when the host comes back.

use std::fs;
use std::path::Path;
use tonic::Code;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{directory_pool, left_behind};
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, Volume, code, patiently};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use xtask::mountinfo::unmount_below;

/// A volume in use that holds something, and a host that was killed.
async fn killed_with_a_volume_in_use() -> (Host, Volume) {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();
    host.kill_9().unwrap();
    (host, volume)
}

async fn back(host: &mut Host) -> Orchestrator {
    host.restart().unwrap();
    host.orchestrator().await.unwrap()
}

fn empty(directory: &Path) {
    fs::remove_dir_all(directory).unwrap();
    fs::create_dir(directory).unwrap();
}

fn assert_nothing_left(host: &Host) {
    let left = left_behind(host, &directory_pool(host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

#[tokio::test]
async fn privileged_a_volume_in_use_outlives_its_host() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    let orchestrator = back(&mut host).await;
    orchestrator.set_up(&volume).await.unwrap();
    let mounts = [volume.staging.as_path(), volume.target.as_path()];
    assert_eq!(host.mounts().unwrap(), mounts);
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_without_the_journal_everything_is_torn_down() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    empty(&host.run());
    let orchestrator = back(&mut host).await;
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_without_journal_mounts_are_found_again() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    empty(&host.run());
    let orchestrator = back(&mut host).await;
    orchestrator.set_up(&volume).await.unwrap();
    let mounts = [volume.staging.as_path(), volume.target.as_path()];
    assert_eq!(host.mounts().unwrap(), mounts, "mounted once more");
    orchestrator
        .stats(&volume.id, &volume.target)
        .await
        .unwrap();
    let early = orchestrator.unstage(&volume).await;
    assert_eq!(code(&early), Code::FailedPrecondition);
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_without_journal_a_volume_in_use_is_not_deleted() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    empty(&host.run());
    let orchestrator = back(&mut host).await;
    let deleted = orchestrator.delete(&volume.id).await;
    assert_eq!(code(&deleted), Code::FailedPrecondition);
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_torn_journal_entry_does_not_block_teardown() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    let journal = host.run().join("journal");
    let entries: Vec<_> = fs::read_dir(&journal)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    let [entry] = entries.as_slice() else {
        panic!("one volume, and {entries:?}");
    };
    fs::write(entry, "{\"schema\":1,").unwrap();
    let orchestrator = back(&mut host).await;
    let said = "an unreadable journal entry was quarantined";
    assert!(host.log().contains(said), "{}", host.log());
    orchestrator.tear_down(&volume).await.unwrap();
    fs::remove_file(entry.with_extension("quarantined")).unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_without_data_directory_teardown_works() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    empty(&host.data());
    let orchestrator = back(&mut host).await;
    orchestrator.tear_down(&volume).await.unwrap();
    assert_eq!(
        code(&orchestrator.is_known(&volume.id).await),
        Code::NotFound
    );
    let again = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&again).await.unwrap();
    orchestrator.tear_down(&again).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_lost_state_store_stops_creations_until_accepted() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    fs::remove_file(host.data().join("state.redb")).unwrap();
    let request = || requests::create("other", VOLUME_BYTES);
    // The second start finds the store that the first one made.
    for _ in 0..2 {
        let before = host.log().len();
        let orchestrator = back(&mut host).await;
        let log = host.log().split_off(before);
        assert!(log.contains("the state store in"), "{log}");
        for refused in [
            orchestrator.create(request()).await.map(drop),
            orchestrator.delete(&volume.id).await,
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable);
            let words = refused.message();
            assert!(words.contains("--accept-empty-state"), "{words}");
        }
        host.terminate().unwrap();
    }
    host.options().more.push("--accept-empty-state".into());
    let orchestrator = back(&mut host).await;
    let other = orchestrator.created("other").await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    host.terminate().unwrap();
    // Accepted once for all.
    host.options().more.clear();
    let orchestrator = back(&mut host).await;
    orchestrator.created("another").await.unwrap();
    orchestrator.is_known(&other.id).await.unwrap();
}

#[tokio::test]
async fn privileged_a_lost_state_store_keeps_no_volume_mounted() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    fs::remove_file(host.data().join("state.redb")).unwrap();
    let orchestrator = back(&mut host).await;
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    assert!(host.mounts().unwrap().is_empty());
}

/// All mounts are gone; the run directory is not, as on a node where it is an ordinary directory.
#[tokio::test]
async fn privileged_after_a_reboot_volumes_are_staged_with_data() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    unmount_below(&host.kubelet()).unwrap();
    let orchestrator = back(&mut host).await;
    let early = patiently(&[Code::Aborted], || orchestrator.publish(&volume)).await;
    assert_eq!(code(&early), Code::FailedPrecondition);
    orchestrator.set_up(&volume).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_after_a_reboot_what_was_in_use_is_torn_down() {
    let (mut host, volume) = killed_with_a_volume_in_use().await;
    unmount_below(&host.kubelet()).unwrap();
    let orchestrator = back(&mut host).await;
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_what_was_answered_is_there_after_a_kill() {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let request = requests::expand(&volume.id, 2 * VOLUME_BYTES);
    let (bytes, _) = orchestrator.expand(request).await.unwrap();
    host.kill_9().unwrap();
    let orchestrator = back(&mut host).await;
    let again = requests::create("pvc", VOLUME_BYTES);
    let known = orchestrator.create(again).await.unwrap();
    assert_eq!(known, (volume.id.clone(), bytes));
    orchestrator.delete(&volume.id).await.unwrap();
    host.kill_9().unwrap();
    let orchestrator = back(&mut host).await;
    assert_eq!(
        code(&orchestrator.is_known(&volume.id).await),
        Code::NotFound
    );
    assert_nothing_left(&host);
}

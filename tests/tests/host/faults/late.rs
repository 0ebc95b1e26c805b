//! Work on storage that ends after its call: the call is answered when its time is over, the work is not forgotten.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::Duration;
use tonic::Code;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::{VOLUME_BYTES, code, patiently};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use wasmount_tests::strace::Strace;

/// How long each rename without replacement takes: a removal begins with one.
const SLOW: Duration = Duration::from_secs(12);

async fn a_late_deletion_takes_nothing_that_came_after(split: Option<u32>) {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    fs::create_dir(&pool).unwrap();
    let document = documents::directory_over_pool(folder.path(), &pool).unwrap();
    let mut text = OpenOptions::new().append(true).open(&document).unwrap();
    text.write_all(b"  limits: { time: 4s }\n").unwrap();
    let mut host = Host::start(HostOptions {
        backends: vec![document],
        split,
        ..HostOptions::default()
    })
    .unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let own = host.id();
    let renaming = host
        .mounting()
        .map_or(own, |mounting| mounting.process.id());
    let slow = Strace::delay(renaming, "renameat2", SLOW).unwrap();
    let late = orchestrator.delete(&volume.id).await;
    assert_eq!(code(&late), Code::DeadlineExceeded, "{late:?}");
    // Not made anew, not staged and not deleted a second time, as long as the first deletion goes on.
    let request = || requests::create("pvc", VOLUME_BYTES);
    assert_eq!(code(&orchestrator.create(request()).await), Code::Aborted);
    assert_eq!(code(&orchestrator.stage(&volume).await), Code::Aborted);
    assert_eq!(code(&orchestrator.delete(&volume.id).await), Code::Aborted);
    let made = patiently(&[Code::Aborted], || orchestrator.create(request())).await;
    assert_eq!(made.unwrap().0, volume.id);
    drop(slow);
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();
    let tree = fs::read_dir(&pool).unwrap().count();
    assert_eq!(tree, 2, "the volume and the host's folder");
    orchestrator.tear_down(&volume).await.unwrap();
}

#[tokio::test]
async fn privileged_a_late_deletion_spares_the_volume_made_anew() {
    a_late_deletion_takes_nothing_that_came_after(None).await;
}

#[tokio::test]
async fn privileged_a_late_deletion_of_a_mounter_spares_the_volume() {
    a_late_deletion_takes_nothing_that_came_after(Some(0)).await;
}

//! A mounter that follows a directory of documents, as in the pods of a node set: drivers come and go there while others serve, and it runs on.

use crate::mounter::{DRIVERS, ROOT, mounting, two_documents};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::left_behind;
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::root::needs_root;

/// What a call of a driver without a document says.
const NO_DOCUMENT: &str = "has no backend document on this node";
/// How long a change may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// As an administrator replaces a file.
fn put(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, file).unwrap();
}

/// Waits until the mounter grants a driver its pool, or no longer does.
async fn until_granted(driver: &Orchestrator, is_granted: bool) {
    let start = Instant::now();
    loop {
        let said = match driver.created("probe").await {
            // The grants may go between the two calls.
            Ok(volume) => {
                let deleted = driver.delete(&volume.id).await;
                deleted.err().map(|status| status.to_string())
            }
            Err(failure) => Some(failure.to_string()),
        };
        match &said {
            None if is_granted => return,
            Some(said) if !is_granted && said.contains(NO_DOCUMENT) => return,
            _ => assert!(start.elapsed() < SOON, "{is_granted}: {said:?}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test]
async fn privileged_documents_of_a_directory_come_and_go() {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    let documents = two_documents(folder.path());
    let texts = documents
        .each_ref()
        .map(|it| fs::read_to_string(it).unwrap());
    let mut host = Host::start(HostOptions {
        backends: documents.to_vec(),
        split: Some(ROOT),
        ..HostOptions::default()
    })
    .unwrap();
    let granted = tempfile::tempdir().unwrap();
    let files = ["first.yaml", "second.yaml"].map(|it| granted.path().join(it));
    put(&files[0], &texts[0]);
    mounting(&mut host).serve_directory(granted.path());
    mounting(&mut host).restart().unwrap();
    let process = mounting(&mut host).process.id();
    let sockets = host.sockets().to_vec();
    let kubelet = host.kubelet();
    let first = Orchestrator::connect(&sockets[0], &kubelet).await.unwrap();
    let second = Orchestrator::connect(&sockets[1], &kubelet).await.unwrap();

    until_granted(&first, true).await;
    until_granted(&second, false).await;
    let kept = first.created("kept").await.unwrap();
    first.set_up(&kept).await.unwrap();
    kept.write("kept").unwrap();

    put(&files[1], &texts[1]);
    until_granted(&second, true).await;
    let used = second.created("used").await.unwrap();
    second.set_up(&used).await.unwrap();
    used.write("used").unwrap();

    // One goes, though a volume of it is in use; one becomes no document. The first is torn down without grants, the second serves on.
    put(&files[0], "kind: Nothing\n");
    fs::remove_file(&files[1]).unwrap();
    until_granted(&second, false).await;
    assert_eq!(used.read_at(&used.target).unwrap(), "used");
    second.unpublish(&used).await.unwrap();
    second.unstage(&used).await.unwrap();
    until_granted(&first, true).await;
    assert_eq!(kept.read_at(&kept.target).unwrap(), "kept");
    let log = fs::read_to_string(&mounting(&mut host).options.log).unwrap();
    assert!(log.contains("a document is not applied"), "{log}");

    put(&files[1], &texts[1]);
    until_granted(&second, true).await;
    second.delete(&used.id).await.unwrap();
    first.tear_down(&kept).await.unwrap();
    assert_eq!(mounting(&mut host).process.id(), process);
    for driver in DRIVERS {
        let pool = host.mount_data().join("pools").join(driver);
        assert_eq!(left_behind(&host, &pool).unwrap(), [""; 0]);
    }
}

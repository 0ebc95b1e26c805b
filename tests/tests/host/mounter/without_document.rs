//! A driver whose document was taken away while its volumes were in use, with the mounter in the host's process and in its own.

use crate::mounter::{DRIVERS, ROOT, two_documents};
use rustix::mount::{UnmountFlags, unmount};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{below, left_behind};
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::root::needs_root;

/// How long the recovery may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Kills host and mounter, and starts them with these documents.
fn restart(host: &mut Host, documents: &[PathBuf]) {
    host.kill_9().unwrap();
    if let Some(mounting) = host.mounting() {
        mounting.process.kill_9().unwrap();
        mounting.options.backends = documents.to_vec();
        mounting.restart().unwrap();
    }
    host.options().backends = documents.to_vec();
    host.restart().unwrap();
}

async fn second(host: &Host) -> Orchestrator {
    let socket = host.sockets().last().unwrap();
    Orchestrator::connect(socket, &host.kubelet())
        .await
        .unwrap()
}

fn records(host: &Host) -> Vec<PathBuf> {
    let mut records = below(&host.run().join("journal")).unwrap();
    records.retain(|path| path.extension().is_some_and(|it| it == "json"));
    records
}

#[tokio::test]
async fn privileged_volumes_in_use_outlive_their_document() {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    let documents = two_documents(folder.path());
    for split in [None, Some(ROOT)] {
        let mut host = Host::start(HostOptions {
            backends: documents.to_vec(),
            split,
            ..HostOptions::default()
        })
        .unwrap();
        let driver = second(&host).await;
        let [used, gone] = ["used", "gone"].map(|name| driver.created(name));
        let (used, gone) = (used.await.unwrap(), gone.await.unwrap());
        driver.set_up(&used).await.unwrap();
        used.write("kept").unwrap();
        driver.stage(&gone).await.unwrap();
        assert_eq!(records(&host).len(), 2);
        host.kill_9().unwrap();
        unmount(&gone.staging, UnmountFlags::empty()).unwrap();

        restart(&mut host, &documents[..1]);
        let start = Instant::now();
        let told = |host: &Host| host.log().contains("since they are staged or published");
        while records(&host).len() > 1 || !told(&host) {
            assert!(start.elapsed() < SOON, "{}", host.log());
            std::thread::sleep(PAUSE);
        }
        assert_eq!(used.read_at(&used.target).unwrap(), "kept");

        restart(&mut host, &documents);
        let driver = second(&host).await;
        driver.tear_down(&used).await.unwrap();
        for volume in [&used, &gone] {
            driver.delete(&volume.id).await.unwrap();
        }
        let pool = host.mount_data().join("pools").join(DRIVERS[1]);
        assert_eq!(left_behind(&host, &pool).unwrap(), [""; 0]);
    }
}

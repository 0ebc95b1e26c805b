//! What kubelet and external-health-monitor hear of a volume with which something is really wrong, and that it is over. kubelet writes an event
//! on the Pod for each abnormal condition of NodeGetVolumeStats, the monitor one on the PersistentVolumeClaim.

use crate::health_monitors::monitor::Monitor;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::sleep;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::kinds::Kind;
use wasmount_tests::leaks::below;
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::{Orchestrator, Volume};
use wasmount_tests::root::needs_root;

/// Until a change must be seen: what a backend said is kept for half a minute. Generous, since other tests share the machine.
const SEEN: Duration = Duration::from_secs(120);
/// Between two looks.
const AGAIN: Duration = Duration::from_millis(100);

/// A volume of hostpath in use by one pod.
struct InUse {
    host: Host,
    orchestrator: Orchestrator,
    kind: Kind,
    volume: Volume,
    pool: PathBuf,
    _folder: TempDir,
}

impl InUse {
    async fn of(kind: Kind) -> Self {
        needs_root();
        namespace::enter();
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().canonicalize().unwrap().join("pool");
        fs::create_dir(&pool).unwrap();
        let document = documents::hostpath_with(folder.path(), &pool, &[], &[]).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            ..HostOptions::default()
        })
        .unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        let volume = kind.created(&orchestrator, "watched").await.unwrap();
        kind.set_up(&orchestrator, &volume).await.unwrap();
        Self {
            host,
            orchestrator,
            kind,
            volume,
            pool,
            _folder: folder,
        }
    }

    /// What kubelet would say of it to the pod at `target`; none: nothing.
    async fn kubelet_says(&self, target: &Path) -> Option<String> {
        let stats = self.orchestrator.stats(&self.volume.id, target).await;
        let condition = stats.unwrap().volume_condition.unwrap();
        condition.abnormal.then_some(condition.message)
    }

    async fn kubelet_comes_to_say(&self, word: Option<&str>) {
        let start = Instant::now();
        loop {
            let said = self.kubelet_says(&self.volume.target).await;
            if matches(said.as_deref(), word) {
                return;
            }
            assert!(start.elapsed() < SEEN, "{word:?} is not in {said:?}");
            sleep(AGAIN).await;
        }
    }

    async fn ends(self) {
        let torn_down = self.orchestrator.tear_down_beside_others(&self.volume);
        torn_down.await.unwrap();
        assert!(self.host.mounts().unwrap().is_empty());
    }
}

fn matches(said: Option<&str>, word: Option<&str>) -> bool {
    match (said, word) {
        (None, None) => true,
        (Some(said), Some(word)) => said.contains(word),
        _ => false,
    }
}

async fn monitor_comes_to_say(monitor: &Monitor, id: &str, word: Option<&str>) {
    let start = Instant::now();
    loop {
        let said = monitor.abnormal(&[id]).await;
        if matches(said.get(id).map(String::as_str), word) {
            return;
        }
        assert!(start.elapsed() < SEEN, "{word:?} is not in {said:?}");
        sleep(AGAIN).await;
    }
}

fn mount(arguments: &[&str], target: &Path) {
    let mut command = Command::new(arguments[0]);
    let done = command.args(&arguments[1..]).arg(target).status().unwrap();
    assert!(done.success(), "{arguments:?} {}", target.display());
}

#[tokio::test]
async fn privileged_a_lost_image_is_reported_to_pod_and_claim() {
    let used = InUse::of(Kind::Filesystem("ext4")).await;
    let id = used.volume.id.clone();
    let monitor = Monitor::start(used.host.socket()).await;
    used.kubelet_comes_to_say(None).await;
    monitor_comes_to_say(&monitor, &id, None).await;

    let files = below(&used.pool).unwrap();
    let image = files.iter().find(|it| it.is_file() && it.ends_with(&id));
    let image = image.unwrap_or_else(|| panic!("no image {id} in {files:?}"));
    let away = used.pool.join("away");
    fs::rename(image, &away).unwrap();
    used.kubelet_comes_to_say(Some("ImageGone: ")).await;
    monitor_comes_to_say(&monitor, &id, Some(": ")).await;

    fs::rename(&away, image).unwrap();
    used.kubelet_comes_to_say(None).await;
    monitor_comes_to_say(&monitor, &id, None).await;
    used.ends().await;
}

#[tokio::test]
async fn privileged_a_missing_mount_is_reported_until_republish() {
    let used = InUse::of(Kind::Directory).await;
    let second = used.orchestrator.target("watched", "second-pod").unwrap();
    let publish = || used.kind.publish(&used.volume, &second);
    used.orchestrator.publish_as(publish()).await.unwrap();
    used.kubelet_comes_to_say(None).await;
    mount(&["umount"], &second);
    used.kubelet_comes_to_say(Some("MountLost: ")).await;
    used.orchestrator.publish_as(publish()).await.unwrap();
    used.kubelet_comes_to_say(None).await;
    let id = &used.volume.id;
    used.orchestrator.unpublish_at(id, &second).await.unwrap();
    used.ends().await;
}

#[tokio::test]
async fn privileged_stats_report_a_pod_mount_that_is_gone() {
    let used = InUse::of(Kind::Directory).await;
    used.kubelet_comes_to_say(None).await;
    mount(&["umount"], &used.volume.target);
    used.kubelet_comes_to_say(Some("MountLost: ")).await;
    used.ends().await;
}

#[tokio::test]
async fn privileged_a_read_only_mount_is_reported_until_writable() {
    let used = InUse::of(Kind::Filesystem("ext4")).await;
    used.kubelet_comes_to_say(None).await;
    let target = used.volume.target.clone();
    mount(&["mount", "-o", "remount,bind,ro"], &target);
    used.kubelet_comes_to_say(Some("MountMadeReadOnly: ")).await;
    mount(&["mount", "-o", "remount,bind,rw"], &target);
    used.kubelet_comes_to_say(None).await;
    used.ends().await;
}

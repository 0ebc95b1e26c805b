//! Whole lives: a volume, a snapshot of it in use, a restored and a cloned volume, growth under a writer, and nothing left.

use super::{BYTES, NODE, Playground, iscsi, nvme, until};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use tonic::Status;
use wasmount_csi::wire::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use wasmount_csi::wire::csi::v1::{
    ControllerPublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    DeleteSnapshotRequest, VolumeContentSource,
};
use wasmount_tests::array::Protocol;
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::requests;

/// A line of a writer.
const LINE: &[u8] = b"line\n";

/// Lines that a writer goes on with.
const MORE: u64 = 20;

/// A thread that appends to a file, and has each line on stable storage before the next.
pub(super) struct Writer {
    path: PathBuf,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Writer {
    pub(super) fn start(directory: &Path) -> Self {
        let path = directory.join("log");
        let ended = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (path, ended) = (path.clone(), Arc::clone(&ended));
            move || {
                let mut file = File::create(path).unwrap();
                let mut lines = 0;
                while !ended.load(Ordering::Relaxed) {
                    file.write_all(LINE).unwrap();
                    file.sync_all().unwrap();
                    lines += 1;
                }
                lines
            }
        });
        Self {
            path,
            ended,
            thread,
        }
    }

    /// Waits until it has written more.
    pub(super) fn wait_for_more(&self) {
        let before = self.lines();
        until("it writes", || self.lines() > before + MORE);
    }

    fn lines(&self) -> u64 {
        self.path.metadata().map_or(0, |it| it.len()) / LINE.len() as u64
    }

    /// Ends it; each of its lines is there.
    pub(super) fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        let lines = self.thread.join().unwrap();
        assert!(lines > 0);
        assert_eq!(fs::read(self.path).unwrap(), LINE.repeat(lines));
    }
}

async fn snapshot(orchestrator: &Orchestrator, source: &str) -> Result<String, Status> {
    let request = CreateSnapshotRequest {
        source_volume_id: source.to_owned(),
        name: "snap".to_owned(),
        ..CreateSnapshotRequest::default()
    };
    let mut controller = orchestrator.clients().controller;
    let answer = controller.create_snapshot(request).await?.into_inner();
    let snapshot = answer.snapshot.unwrap();
    assert!(snapshot.ready_to_use);
    Ok(snapshot.snapshot_id)
}

fn copy(name: &str, bytes: i64, source: Type) -> CreateVolumeRequest {
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource {
            r#type: Some(source),
        }),
        ..requests::create(name, bytes)
    }
}

fn size(mount: &Path) -> u64 {
    let file_system = rustix::fs::statvfs(mount).unwrap();
    file_system.f_blocks * file_system.f_frsize
}

async fn whole_life(protocol: Protocol) {
    let playground = Playground::start(protocol).await;
    let node = playground.node(&[]).await;
    let orchestrator = &node.orchestrator;
    let first = node.bring(requests::create("first", BYTES)).await.unwrap();
    first.write("first").unwrap();
    rustix::fs::syncfs(File::open(&first.target).unwrap()).unwrap();
    let taken = snapshot(orchestrator, &first.id).await.unwrap();
    first.write("changed").unwrap();
    rustix::fs::syncfs(File::open(&first.target).unwrap()).unwrap();

    // The restored one is larger, and its file system, too; the clone has what the volume has now.
    let source = Type::Snapshot(SnapshotSource {
        snapshot_id: taken.clone(),
    });
    let restored = copy("restored", 2 * BYTES, source);
    let restored = node.bring(restored).await.unwrap();
    assert_eq!(restored.read_at(&restored.target).unwrap(), "first");
    assert!(size(&restored.target) > BYTES as u64);
    let source = Type::Volume(VolumeSource {
        volume_id: first.id.clone(),
    });
    let clone = copy("clone", BYTES, source);
    let clone = node.bring(clone).await.unwrap();
    assert_eq!(clone.read_at(&clone.target).unwrap(), "changed");
    clone.write("of the clone").unwrap();

    // The pod writes before each step of the growth and after it; a write that failed would have ended it.
    let writer = Writer::start(&first.target);
    writer.wait_for_more();
    let grown = orchestrator.expand(requests::expand(&first.id, 2 * BYTES));
    assert_eq!(grown.await.unwrap(), (2 * BYTES, true));
    writer.wait_for_more();
    let grown = requests::node_expand(&first.id, &first.target, 2 * BYTES);
    orchestrator.node_expand(grown).await.unwrap();
    assert!(size(&first.target) > BYTES as u64);
    writer.wait_for_more();
    writer.end();

    // What was written is there when it comes back to the node.
    node.hide(&first).await.unwrap();
    node.show(&first).await.unwrap();
    assert_eq!(first.read_at(&first.target).unwrap(), "changed");
    for volume in [&first, &restored, &clone] {
        node.remove(volume).await.unwrap();
    }
    let mut controller = orchestrator.clients().controller;
    let request = DeleteSnapshotRequest {
        snapshot_id: taken,
        ..DeleteSnapshotRequest::default()
    };
    controller.delete_snapshot(request).await.unwrap();
    playground.end();
}

/// A volume with data, attached as Kubernetes does for a PersistentVolume with `readOnly: true`, to a pod that does not ask for that.
async fn is_attached_read_only(protocol: Protocol) {
    let playground = Playground::start(protocol).await;
    let node = playground.node(&[]).await;
    let orchestrator = &node.orchestrator;
    let volume = node.bring(requests::create("pvc", BYTES)).await.unwrap();
    volume.write("before").unwrap();
    node.hide(&volume).await.unwrap();
    let request = ControllerPublishVolumeRequest {
        readonly: true,
        ..requests::attach(&volume.id, NODE)
    };
    let publish_context = orchestrator.attach_as(request).await.unwrap();
    let mut stage = requests::stage(&volume.id, &volume.staging);
    stage.publish_context = publish_context.clone();
    orchestrator.stage_as(stage).await.unwrap();
    let mut publish = requests::publish(&volume.id, &volume.staging, &volume.target);
    publish.publish_context = publish_context;
    orchestrator.publish_as(publish).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "before");
    let refused = fs::write(volume.target.join("data"), "after").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    node.remove(&volume).await.unwrap();
    playground.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_a_read_only_volume_is_mounted_over_iscsi() {
    is_attached_read_only(iscsi()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_a_read_only_volume_is_mounted_over_nvme() {
    is_attached_read_only(nvme()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_volumes_of_an_array_live_over_iscsi() {
    whole_life(iscsi()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_volumes_of_an_array_live_over_nvme() {
    whole_life(nvme()).await;
}

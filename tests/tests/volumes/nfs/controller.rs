//! The controller of plugins/nfs as `wasmount manifests` prints it: its two containers run with their printed arguments, volumes, users and
//! capabilities. What they have of the API server is left out, since there is none.

use super::server::{Knfsd, LOOPBACK, SHARE, eventually};
use crate::printed_pod::Pod;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::slice;
use tonic::Code;
use wasmount_csi::wire::csi::v1::{CreateSnapshotRequest, CreateVolumeRequest};
use wasmount_csi::wire::csi::v1::{DeleteSnapshotRequest, Snapshot};
use wasmount_tests::compiled::Components;
use wasmount_tests::documents;
use wasmount_tests::orchestrator::{Orchestrator, patiently};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::requests;
use xtask::mountinfo::mounts_below;
use xtask::process::Process;

/// The capabilities of the mounter as bits (capabilities(7)): FOWNER 3, SYS_ADMIN 21.
const OF_MOUNTER: u64 = 1 << 3 | 1 << 21;
/// What a host answers before its mounter listens.
const MOUNTER_STARTS: [Code; 1] = [Code::Unavailable];
/// The user of a pod.
const POD: u32 = 1001;

/// The printed pod of the controller, and what its host finds compiled.
fn printed() -> (Pod, Components) {
    let folder = tempfile::tempdir().unwrap();
    let document = documents::nfs(folder.path(), &Knfsd::source(SHARE), &[], &[]).unwrap();
    let store = folder.path().join("store");
    let components = Components::seed(&store, slice::from_ref(&document)).unwrap();
    let pod = Pod::printed(folder, "Deployment", &document, "nfs", &[]);
    (pod, components)
}

/// Its mounter, but for a capability.
fn mounter_without(pod: &Pod, capability: &str) -> Value {
    let mut container = pod.container("mounter");
    let added = &mut container["securityContext"]["capabilities"]["add"];
    added.as_array_mut().unwrap().retain(|it| it != capability);
    container
}

async fn orchestrator(pod: &Pod) -> Orchestrator {
    let socket = pod.volume("csi-socket").join("csi.sock");
    let kubelet = pod.folder();
    eventually(async || Orchestrator::connect_at_once(&socket, kubelet).await).await;
    Orchestrator::connect(&socket, kubelet).await.unwrap()
}

/// The capabilities that a process has.
fn capabilities(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let mut lines = status.lines();
    let effective = lines.find_map(|line| line.strip_prefix("CapEff:\t"));
    u64::from_str_radix(effective.unwrap(), 16).unwrap()
}

fn create(name: &str) -> CreateVolumeRequest {
    let parameters = [
        ("server", LOOPBACK),
        ("share", "/share"),
        ("mountPermissions", "2770"),
        ("uid", "1000"),
        ("gid", "1000"),
    ];
    CreateVolumeRequest {
        parameters: parameters
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..requests::create(name, 1 << 20)
    }
}

/// The mounter ends if its most important capability is not among them.
async fn refuses_without_the_right_to_mount(pod: &Pod) {
    let container = mounter_without(pod, "SYS_ADMIN");
    let mut mounter = pod.start(&container);
    let status = eventually(async || mounter.ended().unwrap().ok_or("it runs")).await;
    assert_eq!(status.code(), Some(1));
    let log = fs::read_to_string(pod.log(&container)).unwrap();
    assert!(log.contains("needs the capability CAP_SYS_ADMIN"), "{log}");
}

/// The pod's user keeps everybody else out, in a directory where only owners remove files.
fn keep_private(volume: &Path) {
    let private = volume.join("private");
    fs::create_dir(&private).unwrap();
    fs::write(private.join("file"), "of the pod").unwrap();
    for (path, mode) in [(private.join("file"), 0o400), (private, 0o1700)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(POD), Some(POD)).unwrap();
    }
}

/// The kernel asks for the other capability before the server does. Returns the id of the volume that is left.
async fn removes_nothing_without_the_right_of_owners(pod: &Pod, server: &Knfsd) -> String {
    // A plugin that was never admitted asks the mounter for its share when it checks its settings, and this mounter starts later.
    let container = pod.container("wasmount");
    let mut host = pod.start(&container);
    let is_told = async || {
        let log = fs::read_to_string(pod.log(&container)).unwrap();
        let told = log.contains("cannot check its settings at the moment");
        told.then_some(()).ok_or(log)
    };
    eventually(is_told).await;
    let mut mounter = pod.start(&mounter_without(pod, "FOWNER"));
    let orchestrator = orchestrator(pod).await;
    let first = || orchestrator.create(create("pvc"));
    let (id, _) = patiently(&MOUNTER_STARTS, first).await.unwrap();
    keep_private(&server.share().join("pvc"));
    let refused = orchestrator.delete(&id).await.unwrap_err();
    let message = refused.message();
    assert!(message.contains("Operation not permitted"), "{refused}");
    for process in [&mut host, &mut mounter] {
        assert!(process.terminate().unwrap().success());
    }
    id
}

#[tokio::test]
async fn on_other_kernel_a_controller_works_with_printed_rights() {
    needs_other_kernel();
    let server = Knfsd::start();
    let (pod, components) = printed();
    refuses_without_the_right_to_mount(&pod).await;
    let left = removes_nothing_without_the_right_of_owners(&pod, &server).await;
    let mut mounter = pod.start(&pod.container("mounter"));
    let mut host = pod.start(&pod.container("wasmount"));
    let orchestrator = orchestrator(&pod).await;
    // What is left of it was set aside, and is removed with this mounter.
    let first = || orchestrator.delete(&left);
    patiently(&MOUNTER_STARTS, first).await.unwrap();
    assert_eq!([&host, &mounter].map(capabilities), [0, OF_MOUNTER]);

    let (id, _) = orchestrator.create(create("pvc")).await.unwrap();
    let directory = server.share().join("pvc");
    let status = fs::metadata(&directory).unwrap();
    let owner = (status.mode() & 0o7777, status.uid(), status.gid());
    assert_eq!(owner, (0o2770, 1000, 1000));
    keep_private(&directory);
    let snapshot = patiently(&[Code::Aborted], || snapshot(&orchestrator, &id)).await;
    let snapshot = snapshot.unwrap();
    assert!(snapshot.ready_to_use);

    server.pause();
    server.resume();
    eventually(async || orchestrator.create(create("second")).await).await;
    let mut controller = orchestrator.clients().controller;
    let request = DeleteSnapshotRequest {
        snapshot_id: snapshot.snapshot_id,
        ..DeleteSnapshotRequest::default()
    };
    controller.delete_snapshot(request).await.unwrap();
    orchestrator.delete(&id).await.unwrap();
    orchestrator
        .delete(&id.replace("pvc", "second"))
        .await
        .unwrap();
    let left = fs::read_dir(server.share()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".wasmount"]);

    components.keep(&pod.volume("store")).unwrap();
    // Its mounts are seen by nobody else.
    assert_eq!(mounts_below(pod.folder()).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(
        mounts_below(Path::new("/run/wasmount")).unwrap(),
        Vec::<PathBuf>::new()
    );
    for process in [&mut host, &mut mounter] {
        assert!(process.terminate().unwrap().success());
    }
}

async fn snapshot(orchestrator: &Orchestrator, volume: &str) -> Result<Snapshot, tonic::Status> {
    let request = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: "snapshot".to_owned(),
        ..CreateSnapshotRequest::default()
    };
    let mut controller = orchestrator.clients().controller;
    let answer = controller.create_snapshot(request).await?.into_inner();
    Ok(answer.snapshot.unwrap())
}

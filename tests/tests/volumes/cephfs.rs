//! plugins/cephfs on a real Ceph: csi-sanity, a life with two pods, a snapshot, copies, growth and a quota, keys of volumes, and a volume on two kernels.

mod keys;
mod two_kernels;

use crate::conformance::driver::options_at;
use crate::sanity::assert_passed;
use rustix::fs::{getxattr, statvfs};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::volume_content_source::Type;
use wasmount_csi::wire::csi::v1::{
    CreateVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeContentSource,
};
use wasmount_tests::ceph::{Ceph, FILE_SYSTEM, GROUP, LOCAL};
use wasmount_tests::copies::{cloned, delete_snapshot, restored, snapshot};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::{Orchestrator, Volume, code, patiently};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::requests;
use wasmount_tests::sanity::{SECRET, SanityRun};
use xtask::tools::CSI_SANITY_5_6;

/// Specs of csi-sanity 5.6.0 for what plugins/cephfs exports.
const OFFERED: usize = 71;

/// Those for attaching, groups and modification, which a shared file system does not need, and those for CSI 1.13.
const NOT_OFFERED: usize = 31;

const MIB: i64 = 1 << 20;

/// Codes of calls that a client repeats.
const AGAIN: [Code; 2] = [Code::Aborted, Code::Unavailable];

/// How much more than its quota a volume may hold: clients learn with a delay how much others wrote.
const QUOTA_SLACK: i64 = 64 * MIB;

/// Time limit until a node knows a new quota.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host before a Ceph.
struct Scene {
    host: Host,
    ceph: &'static Ceph,
    _folder: TempDir,
}

/// A volume on the node, with what CreateVolume returned.
struct Staged {
    volume: Volume,
    context: BTreeMap<String, String>,
}

impl Scene {
    fn start() -> Self {
        Self::at(LOCAL)
    }

    fn at(address: &'static str) -> Self {
        needs_other_kernel();
        let ceph = Ceph::shared(address).unwrap();
        let (host, folder) = host(address, &ceph.key().unwrap());
        Self {
            host,
            ceph,
            _folder: folder,
        }
    }

    /// Nothing that the driver created is left in Ceph.
    fn assert_nothing_left(&self) {
        assert_eq!(self.ceph.subvolumes().unwrap().trim(), "[]");
        assert_eq!(self.users_of_volumes(), [""; 0]);
    }

    /// The clients of Ceph that are those of volumes.
    fn users_of_volumes(&self) -> Vec<String> {
        let mut users = self.ceph.users().unwrap();
        users.retain(|user| user.starts_with("client.csi-"));
        users
    }
}

/// A host with the Ceph at an address, and the folder of its document.
fn host(address: &str, key: &str) -> (Host, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let document = documents::cephfs(folder.path(), address, key).unwrap();
    let host = Host::start(HostOptions {
        backends: vec![document],
        any_paths: true,
        // Whatever the host ever says: a key must be in none of it.
        more: ["--log", "trace"].map(Into::into).into(),
        ..HostOptions::default()
    });
    (host.unwrap(), folder)
}

impl Staged {
    async fn create(
        orchestrator: &Orchestrator,
        name: &str,
        bytes: i64,
        from: Option<Type>,
    ) -> Self {
        let from = from.map(|it| VolumeContentSource { r#type: Some(it) });
        let request = CreateVolumeRequest {
            parameters: BTreeMap::from([("fsName".to_owned(), FILE_SYSTEM.to_owned())]),
            volume_capabilities: vec![requests::mounted(Mode::MultiNodeMultiWriter, &[])],
            volume_content_source: from,
            ..requests::create(name, bytes)
        };
        Self::created(orchestrator, request).await
    }

    async fn created(orchestrator: &Orchestrator, request: CreateVolumeRequest) -> Self {
        let created = patiently(&AGAIN, || {
            let mut controller = orchestrator.clients().controller;
            let request = request.clone();
            async move { controller.create_volume(request).await }
        });
        let created = created.await.unwrap().into_inner().volume.unwrap();
        let range = request.capacity_range.unwrap();
        assert_eq!(created.capacity_bytes, range.required_bytes);
        let (id, context) = (created.volume_id, created.volume_context);
        Self::stage(orchestrator, &request.name, id, context).await
    }

    /// Stages a volume that exists, and publishes it to its first pod.
    async fn stage(
        orchestrator: &Orchestrator,
        name: &str,
        id: String,
        context: BTreeMap<String, String>,
    ) -> Self {
        let staged = Self {
            volume: orchestrator.place(name, id).unwrap(),
            context,
        };
        let stage = NodeStageVolumeRequest {
            volume_context: staged.context.clone(),
            ..requests::stage(&staged.volume.id, &staged.volume.staging)
        };
        orchestrator.stage_as(stage).await.unwrap();
        staged.publish(orchestrator, &staged.volume.target).await;
        staged
    }

    async fn publish(&self, orchestrator: &Orchestrator, target: &Path) {
        let Volume { id, staging, .. } = &self.volume;
        let request = NodePublishVolumeRequest {
            volume_context: self.context.clone(),
            ..requests::publish(id, staging, target)
        };
        orchestrator.publish_as(request).await.unwrap();
    }

    /// The node no longer uses it.
    async fn leave(&self, orchestrator: &Orchestrator) {
        orchestrator.unpublish(&self.volume).await.unwrap();
        orchestrator.unstage(&self.volume).await.unwrap();
    }

    async fn delete(self, orchestrator: &Orchestrator) {
        orchestrator.tear_down(&self.volume).await.unwrap();
        let delete = patiently(&AGAIN, || orchestrator.delete(&self.volume.id));
        delete.await.unwrap();
    }

    fn write(&self, content: &str) {
        fs::write(self.volume.target.join("data"), content).unwrap();
    }

    fn read(&self) -> String {
        fs::read_to_string(self.volume.target.join("data")).unwrap()
    }

    /// The size of its file system, as a pod sees it.
    fn bytes(&self) -> i64 {
        let status = statvfs(&self.volume.target).unwrap();
        (status.f_blocks * status.f_frsize).cast_signed()
    }

    /// Writes until nothing more fits; returns how much did.
    fn fill(&self) -> i64 {
        let mut file = fs::File::create(self.volume.target.join("large")).unwrap();
        let chunk = vec![1; MIB.cast_unsigned().try_into().unwrap()];
        let mut written = 0;
        loop {
            match file.write_all(&chunk).and_then(|()| file.sync_data()) {
                Ok(()) => written += MIB,
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(Errno::DQUOT.raw_os_error()));
                    return written;
                }
            }
        }
    }
}

#[tokio::test]
async fn on_other_kernel_sanity_5_6_passes_against_cephfs() {
    let mut scene = Scene::start();
    scene.host.client().await.unwrap();
    let outcome = SanityRun {
        tool: CSI_SANITY_5_6,
        endpoint: scene.host.socket(),
        controller_endpoint: None,
        directory: &scene.host.paths(),
        access_type: "mount",
        // With the key of the document; all other tests are with those of volumes.
        parameters: &[
            ("clusterID", "tests"),
            ("fsName", FILE_SYSTEM),
            ("keyPerVolume", "false"),
        ],
        mutable_parameters: &[],
    };
    let outcome = outcome.run().unwrap();
    assert_passed(&outcome, OFFERED, NOT_OFFERED);
    assert!(!scene.host.log().contains(SECRET), "a secret was logged");
    scene.assert_nothing_left();
    assert!(scene.host.terminate().unwrap().success());
}

#[tokio::test]
async fn on_other_kernel_volumes_of_cephfs_live_and_leave_nothing() {
    let mut scene = Scene::start();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let orchestrator = &orchestrator;
    let pvc = Staged::create(orchestrator, "pvc", 64 * MIB, None).await;
    assert_eq!(pvc.bytes(), 64 * MIB);
    // A second pod of the node sees the same files.
    let second = orchestrator.target("pvc", "second-pod").unwrap();
    pvc.publish(orchestrator, &second).await;
    pvc.write("first");
    assert_eq!(fs::read_to_string(second.join("data")).unwrap(), "first");
    let id = pvc.volume.id.as_str();
    orchestrator.unpublish_at(id, &second).await.unwrap();

    let taken = patiently(&AGAIN, || snapshot(orchestrator, id, "snapshot"));
    let taken = taken.await.unwrap();
    pvc.write("second");
    let from = [("restored", restored(&taken)), ("clone", cloned(id))];
    let mut copies = Vec::new();
    for (name, from) in from {
        copies.push(Staged::create(orchestrator, name, 68 * MIB, Some(from)).await);
    }
    let contents: Vec<_> = copies.iter().map(Staged::read).collect();
    assert_eq!(contents, ["first", "second"]);
    assert!(copies.iter().all(|copy| copy.bytes() == 68 * MIB));
    for copy in copies {
        copy.delete(orchestrator).await;
    }

    let grow = requests::expand(id, 96 * MIB);
    assert_eq!(orchestrator.expand(grow).await.unwrap(), (96 * MIB, false));
    let start = Instant::now();
    while pvc.bytes() != 96 * MIB {
        assert!(start.elapsed() < PATIENCE, "{}", pvc.bytes());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let written = pvc.fill();
    assert!(written >= 64 * MIB, "{written}");
    assert!(written <= 96 * MIB + QUOTA_SLACK, "{written}");

    // The snapshot outlives its volume.
    pvc.delete(orchestrator).await;
    assert!(scene.ceph.subvolumes().unwrap().contains("csi-vol-pvc"));
    let delete = patiently(&AGAIN, || delete_snapshot(orchestrator, &taken));
    delete.await.unwrap();
    scene.assert_nothing_left();
    assert!(scene.host.terminate().unwrap().success());
}

#[tokio::test]
async fn on_other_kernel_a_class_of_ceph_csi_is_obeyed() {
    let mut scene = Scene::start();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let class = [
        ("clusterID", "tests"),
        ("fsName", FILE_SYSTEM),
        ("pool", "data"),
        ("volumeNamePrefix", "own-"),
        ("subvolumeGroup", GROUP),
        ("mounter", "kernel"),
        ("kernelMountOptions", "rasize=4194304"),
        ("fuseMountOptions", "debug"),
        ("encrypted", "false"),
        ("backingSnapshot", "false"),
    ];
    let request = |more: &[(&str, &str)]| {
        let pairs = class.iter().chain(more);
        CreateVolumeRequest {
            parameters: pairs
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            volume_capabilities: vec![requests::mounted(Mode::MultiNodeMultiWriter, &[])],
            ..requests::create("pvc", 64 * MIB)
        }
    };
    for other in [
        ("clusterID", "another"),
        ("subvolumeGroup", "another"),
        ("mounter", "fuse"),
        ("encrypted", "true"),
        ("backingSnapshot", "true"),
    ] {
        let refused = orchestrator.create(request(&[other])).await;
        assert_eq!(code(&refused), Code::InvalidArgument, "{other:?}");
    }
    let pvc = Staged::created(&orchestrator, request(&[])).await;
    assert!(scene.ceph.subvolumes().unwrap().contains("\"own-pvc"));
    let options = options_at(&pvc.volume.target);
    assert!(
        options.iter().any(|it| it == "rasize=4194304"),
        "{options:?}"
    );
    let mut pool = [0; 64];
    let length = getxattr(&pvc.volume.target, "ceph.dir.layout.pool", &mut pool).unwrap();
    assert_eq!(&pool[..length], b"data");
    pvc.write("kept");
    pvc.delete(&orchestrator).await;
    scene.assert_nothing_left();
    assert!(scene.host.terminate().unwrap().success());
}

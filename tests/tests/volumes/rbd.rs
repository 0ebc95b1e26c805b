//! plugins/rbd on a real Ceph: csi-sanity, and a life with a file system and raw, growth, a snapshot and copies.

use crate::sanity::assert_passed;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use tempfile::TempDir;
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_content_source::Type;
use wasmount_csi::wire::csi::v1::{
    CreateVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeContentSource,
};
use wasmount_tests::ceph::{Ceph, LOCAL, POOL};
use wasmount_tests::copies::{cloned, delete_snapshot, restored, snapshot};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::{Orchestrator, Volume, patiently};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::requests;
use wasmount_tests::sanity::{SECRET, SanityRun};
use wasmount_tests::secret_search::SecretSearch;
use xtask::command;
use xtask::tools::CSI_SANITY_5_6;

/// Specs of csi-sanity 5.6.0 for what plugins/rbd exports, and those for attaching, groups and modification, and for CSI 1.13.
const OFFERED: usize = 71;
const NOT_OFFERED: usize = 31;

const MIB: i64 = 1 << 20;

/// Codes of calls that a client repeats.
const AGAIN: [Code; 2] = [Code::Aborted, Code::Unavailable];

/// A host before a Ceph.
struct Scene {
    host: Host,
    ceph: &'static Ceph,
    key: String,
    _folder: TempDir,
}

/// A volume on the node, with what CreateVolume returned.
struct Staged {
    volume: Volume,
    context: BTreeMap<String, String>,
}

impl Scene {
    fn start() -> Self {
        needs_other_kernel();
        command::run(Command::new("modprobe").arg("rbd")).unwrap();
        let ceph = Ceph::shared(LOCAL).unwrap();
        let key = ceph.image_key().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let document = documents::rbd(folder.path(), &key).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            any_paths: true,
            // Whatever the host ever says: a key must be in none of it.
            more: ["--log", "trace"].map(Into::into).into(),
            ..HostOptions::default()
        });
        Self {
            host: host.unwrap(),
            ceph,
            key,
            _folder: folder,
        }
    }

    /// Nothing that the driver created is left in Ceph, or on the node.
    fn assert_nothing_left(&self) {
        assert_eq!(self.ceph.rbd(&["ls"]).unwrap().trim(), "");
        assert_eq!(fs::read_dir("/sys/bus/rbd/devices").unwrap().count(), 0);
    }
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
            parameters: BTreeMap::from([("pool".to_owned(), POOL.to_owned())]),
            volume_content_source: from,
            ..requests::create(name, bytes)
        };
        let created = patiently(&AGAIN, || {
            let mut controller = orchestrator.clients().controller;
            let request = request.clone();
            async move { controller.create_volume(request).await }
        });
        let created = created.await.unwrap().into_inner().volume.unwrap();
        assert_eq!(created.capacity_bytes, bytes, "{name}");
        let staged = Self {
            volume: orchestrator.place(name, created.volume_id).unwrap(),
            context: created.volume_context,
        };
        let Volume { id, staging, .. } = &staged.volume;
        let stage = NodeStageVolumeRequest {
            volume_context: staged.context.clone(),
            ..requests::stage(id, staging)
        };
        orchestrator.stage_as(stage).await.unwrap();
        let publish = NodePublishVolumeRequest {
            volume_context: staged.context.clone(),
            ..requests::publish(id, staging, &staged.volume.target)
        };
        orchestrator.publish_as(publish).await.unwrap();
        staged
    }

    /// Writes through to Ceph: a snapshot has what reached it.
    fn write(&self, content: &str) {
        let path = self.volume.target.join("data");
        fs::write(&path, content).unwrap();
        fs::File::open(path).unwrap().sync_all().unwrap();
    }

    fn read(&self) -> String {
        fs::read_to_string(self.volume.target.join("data")).unwrap()
    }
}

#[tokio::test]
async fn on_other_kernel_sanity_5_6_passes_against_rbd_of_ceph() {
    let mut scene = Scene::start();
    scene.host.client().await.unwrap();
    let outcome = SanityRun {
        tool: CSI_SANITY_5_6,
        endpoint: scene.host.socket(),
        controller_endpoint: None,
        directory: &scene.host.paths(),
        access_type: "mount",
        parameters: &[("clusterID", "tests"), ("pool", POOL)],
        mutable_parameters: &[],
    };
    let outcome = outcome.run().unwrap();
    assert_passed(&outcome, OFFERED, NOT_OFFERED);
    assert!(!scene.host.log().contains(SECRET), "a secret was logged");
    scene.assert_nothing_left();
    assert!(scene.host.terminate().unwrap().success());
}

#[tokio::test]
async fn on_other_kernel_rbd_volumes_of_ceph_live_and_leave_nothing() {
    let mut scene = Scene::start();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let orchestrator = &orchestrator;
    let pvc = Staged::create(orchestrator, "pvc", 64 * MIB, None).await;
    pvc.write("first");
    let id = pvc.volume.id.clone();
    let taken = patiently(&AGAIN, || snapshot(orchestrator, &id, "snapshot"));
    let taken = taken.await.unwrap();
    pvc.write("second");
    let from = [("restored", restored(&taken)), ("clone", cloned(&id))];
    let mut copies = Vec::new();
    for (name, from) in from {
        copies.push(Staged::create(orchestrator, name, 96 * MIB, Some(from)).await);
    }
    let contents: Vec<_> = copies.iter().map(Staged::read).collect();
    assert_eq!(contents, ["first", "second"]);

    let grow = requests::expand(&id, 128 * MIB);
    assert_eq!(orchestrator.expand(grow).await.unwrap(), (128 * MIB, true));
    let grow = requests::node_expand(&id, &pvc.volume.target, 128 * MIB);
    assert_eq!(orchestrator.node_expand(grow).await.unwrap(), 128 * MIB);

    // A volume that has a snapshot, or is in use, stays.
    for why in ["has snapshots", "Ceph refused it"] {
        let refused = orchestrator.delete(&id).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(why), "{refused}");
        let delete = patiently(&AGAIN, || delete_snapshot(orchestrator, &taken));
        delete.await.unwrap();
    }
    orchestrator.tear_down(&pvc.volume).await.unwrap();
    // Copies depend on nothing.
    assert_eq!(copies[0].read(), "first");
    for copy in copies {
        orchestrator.tear_down(&copy.volume).await.unwrap();
    }
    let search = SecretSearch::of([scene.key.as_str()]).unwrap();
    assert_eq!(search.kept_by(&scene.host).unwrap(), [""; 0]);
    scene.assert_nothing_left();
    assert!(scene.host.terminate().unwrap().success());
}

//! The key of a volume leads to this volume only, is nowhere in clear, and ends with it.

use super::{MIB, Scene, Staged};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::path::Path;
use std::process::Command;
use tonic::Code;
use wasmount_csi::wire::csi::v1::NodeStageVolumeRequest;
use wasmount_tests::ceph::{FILE_SYSTEM, LOCAL};
use wasmount_tests::requests;
use wasmount_tests::secret_search::SecretSearch;
use xtask::command;
use xtask::failure::Failure;

/// Mounts a path of the file system as a user, as anyone could who has the key.
fn mount(user: &str, key: &str, path: &str, target: &Path) -> Result<(), Failure> {
    let options = format!("name={user},secret={key},mds_namespace={FILE_SYSTEM}");
    let source = format!("{LOCAL}:6789:{path}");
    let mut mount = Command::new("mount");
    mount.args(["--internal-only", "--types", "ceph", "--options", &options]);
    command::run(mount.arg(source).arg(target))
}

/// The namespace of the volume's data, by its name.
fn namespace(name: &str) -> String {
    format!("fsvolumens_csi-vol-{name}")
}

#[tokio::test]
async fn on_other_kernel_a_volume_of_cephfs_has_its_own_key() {
    let mut scene = Scene::start();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let own = Staged::create(&orchestrator, "own", 64 * MIB, None).await;
    let other = Staged::create(&orchestrator, "other", 64 * MIB, None).await;
    for (volume, content) in [(&own, "of own"), (&other, "of other")] {
        volume.write(content);
        // Until its data is in Ceph.
        let file = fs::File::open(volume.volume.target.join("data"));
        file.unwrap().sync_all().unwrap();
    }
    let user = own.context["user"].as_str();
    let key = scene.ceph.key_of(&format!("client.{user}")).unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(mounts.contains(&format!("name={user},")), "{mounts}");

    // What whoever has the key can reach.
    let folder = tempfile::tempdir().unwrap();
    let path = |volume: &Staged| volume.context["subvolumePath"].clone();
    mount(user, &key, &path(&own), folder.path()).unwrap();
    let read = fs::read_to_string(folder.path().join("data"));
    unmount(folder.path(), UnmountFlags::empty()).unwrap();
    assert_eq!(read.unwrap(), "of own");
    for elsewhere in [path(&other), "/volumes/csi".to_owned(), "/".to_owned()] {
        let mounted = mount(user, &key, &elsewhere, folder.path());
        assert!(mounted.is_err(), "{elsewhere}");
    }
    let objects = scene.ceph.objects(user, &key, &namespace("own"));
    assert!(!objects.unwrap().trim().is_empty());
    for elsewhere in [namespace("other"), String::new()] {
        let objects = scene.ceph.objects(user, &key, &elsewhere);
        assert!(objects.is_err(), "{elsewhere}: {objects:?}");
    }

    // Where nobody may find it.
    let sealed = &own.context["sealedKey"];
    assert!(sealed.starts_with("wasmount.sealed.v1:"), "{sealed}");
    let admin = scene.ceph.key_of("client.admin").unwrap();
    for secret in [&key, &admin] {
        assert!(!own.context.values().any(|it| it.contains(secret)));
    }
    let search = SecretSearch::of([key.as_str(), admin.as_str()]).unwrap();
    assert_eq!(search.kept_by(&scene.host).unwrap(), [""; 0]);
    // The log is one that says much.
    assert!(scene.host.log().contains(&own.volume.id));

    // The text opens for no other volume.
    other.leave(&orchestrator).await;
    let mut volume_context = other.context.clone();
    volume_context.insert("sealedKey".to_owned(), sealed.clone());
    let swapped = NodeStageVolumeRequest {
        volume_context,
        ..requests::stage(&other.volume.id, &other.volume.staging)
    };
    let refused = orchestrator.stage_as(swapped).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("cannot be opened"), "{refused}");

    assert_eq!(scene.users_of_volumes().len(), 2);
    own.delete(&orchestrator).await;
    assert_eq!(scene.users_of_volumes().len(), 1);
    other.delete(&orchestrator).await;
    scene.assert_nothing_left();
    assert!(scene.host.terminate().unwrap().success());
}

//! A serving process that was taken over, and asks the mounter for what no kubelet asks: the mounter's own rules must hold.

use crate::mounter::{ROOT, assert_nothing_left, mounting, serving};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use wasmount_core::mounter::{
    MountError, Mounter, PublishVolume, StageVolume, UnpublishVolume, UnstageVolume, VolumeKey,
};
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};
use wasmount_mounter::SocketMounter;
use wasmount_tests::host::Host;

/// Of plugins/directory.
const DRIVER: &str = "directory.wasmount.io";
const HASH: &str = "0f0e0d0c0b0a09080706050403020100f0e0d0c0b0a090807060504030201000";

struct Attacker(SocketMounter);

impl Attacker {
    fn on(host: &mut Host) -> Self {
        let socket = mounting(host).options.socket.clone();
        Self(SocketMounter::new(socket))
    }

    async fn stage(&self, volume: &str, at: &Path) -> Result<(), MountError> {
        let request = StageVolume {
            key: key(volume),
            staging_path: node_path(at),
            capability: capability(),
            plan: no_files(),
            secret_options: SecretOptions::default(),
        };
        self.0.stage(request).await
    }

    async fn publish(&self, volume: &str, at: &Path) -> Result<(), MountError> {
        let request = PublishVolume {
            key: key(volume),
            staging_path: None,
            target_path: node_path(at),
            capability: capability(),
            readonly: false,
            plan: Some(no_files()),
            secret_options: SecretOptions::default(),
        };
        self.0.publish(request).await
    }

    async fn unstage(&self, volume: &str, at: &Path) -> Result<(), MountError> {
        let (key, staging_path) = (key(volume), node_path(at));
        self.0.unstage(UnstageVolume { key, staging_path }).await
    }

    async fn unpublish(&self, volume: &str, at: &Path) -> Result<(), MountError> {
        let (key, target_path) = (key(volume), node_path(at));
        self.0.unpublish(UnpublishVolume { key, target_path }).await
    }

    /// What each of the four calls answers.
    async fn all(&self, volume: &str, at: &Path) -> [Result<(), MountError>; 4] {
        [
            self.stage(volume, at).await,
            self.publish(volume, at).await,
            self.unpublish(volume, at).await,
            self.unstage(volume, at).await,
        ]
    }
}

/// `files` needs no grant: every driver can mount it.
fn no_files() -> Plan {
    Plan {
        source: Source::Files { files: Vec::new() },
        default_fs_type: None,
        mount_options: Vec::new(),
        notes: BTreeMap::new(),
        luks: None,
    }
}

fn key(volume: &str) -> VolumeKey {
    VolumeKey {
        driver: DriverName::parse(DRIVER).unwrap(),
        volume: VolumeId::parse("volume_id", volume).unwrap(),
    }
}

fn node_path(path: &Path) -> NodePath {
    NodePath::parse("path", path.to_str().unwrap()).unwrap()
}

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess::default()),
        access_mode: AccessMode::SingleNodeWriter,
    }
}

#[tokio::test]
async fn privileged_only_kubelets_own_paths_are_mounted_or_removed() {
    let (mut host, _orchestrator) = serving(ROOT).await;
    let attacker = Attacker::on(&mut host);
    for path in [
        "pki",
        "plugins/other.test",
        "pods/victim/volumes/kubernetes.io~configmap/settings",
        "pods/victim/volumes/kubernetes.io~empty-dir/cache",
        "pods/victim/volumes/kubernetes.io~projected/kube-api-access",
        &format!("plugins/kubernetes.io/csi/other.test/{HASH}/globalmount"),
        &format!("plugins/kubernetes.io/csi/{DRIVER}/{HASH}/globalmount/below"),
    ] {
        let path = host.kubelet().join(path);
        fs::create_dir_all(&path).unwrap();
        for answer in attacker.all("v", &path).await {
            let refused = matches!(answer, Err(MountError::OutsideRoots { .. }));
            assert!(refused, "{}: {answer:?}", path.display());
        }
        // An unpublish removes a target that is empty.
        assert!(path.is_dir(), "{} was removed", path.display());
    }
    assert!(host.mounts().unwrap().is_empty());
}

#[tokio::test]
async fn privileged_a_path_kept_for_another_volume_is_rejected() {
    let (mut host, orchestrator) = serving(ROOT).await;
    let attacker = Attacker::on(&mut host);
    let own = orchestrator.place("own", "own".to_owned()).unwrap();
    let paths = [own.staging.as_path(), &own.target];
    let record = |driver: &str, volume: &str| {
        for path in paths {
            let record = format!(r#"{{"driverName":"{driver}","volumeHandle":"{volume}"}}"#);
            fs::write(path.with_file_name("vol_data.json"), record).unwrap();
        }
    };
    fs::create_dir(&own.target).unwrap();
    for (driver, volume) in [("other.test", "own"), (DRIVER, "other")] {
        record(driver, volume);
        for answer in [
            attacker.stage("own", &own.staging).await,
            attacker.unstage("own", &own.staging).await,
            attacker.publish("own", &own.target).await,
            attacker.unpublish("own", &own.target).await,
        ] {
            let refused = matches!(answer, Err(MountError::InUse { .. }));
            assert!(refused, "{driver} {volume}: {answer:?}");
        }
        assert!(own.target.is_dir() && host.mounts().unwrap().is_empty());
    }
    // What kubelet says of the volume itself is right.
    record(DRIVER, "own");
    attacker.stage("own", &own.staging).await.unwrap();
    attacker.unstage("own", &own.staging).await.unwrap();
    attacker.publish("own", &own.target).await.unwrap();
    attacker.unpublish("own", &own.target).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_staging_directory_with_content_is_rejected() {
    let (mut host, orchestrator) = serving(ROOT).await;
    let attacker = Attacker::on(&mut host);
    let own = orchestrator.place("own", "own".to_owned()).unwrap();
    let content = own.staging.join("content");
    fs::write(&content, "kept").unwrap();
    let answer = attacker.stage("own", &own.staging).await;
    let refused = matches!(answer, Err(MountError::AlreadyExists { .. }));
    assert!(refused, "{answer:?}");
    assert_eq!(fs::read_to_string(&content).unwrap(), "kept");
    fs::remove_file(content).unwrap();
    attacker.stage("own", &own.staging).await.unwrap();
    attacker.unstage("own", &own.staging).await.unwrap();
    assert_nothing_left(&host);
}

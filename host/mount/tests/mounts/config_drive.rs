//! The config drive on real disks: as Nova makes it, forged, and in use.

mod disks;

use disks::{Disks, META_DATA, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tempfile::TempDir;
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::document::{DeviceGrant, Grants};
use wasmount_core::mounter::{MountError, Mounter};
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::{Instance, META_DATA_BYTES, NodeFact};
use wasmount_mount::{LocalMounter, MounterConfig};

const LABEL: &str = "config-2";

/// The driver that is granted a fact.
const READER: &str = "facts.test";

struct Scene {
    mounter: LocalMounter,
    disks: Disks,
    folder: TempDir,
}

fn driver(name: &str) -> DriverName {
    DriverName::parse(name).unwrap()
}

fn facts() -> Grants {
    Grants {
        node_facts: BTreeSet::from([NodeFact::Zone]),
        ..Grants::default()
    }
}

impl Scene {
    fn new() -> Self {
        let disks = Disks::start();
        let folder = tempfile::tempdir().unwrap();
        let config = MounterConfig {
            roots: Vec::new(),
            own: Vec::new(),
            run_dir: folder.path().join("run"),
            state_dir: folder.path().join("state"),
            grants: BTreeMap::from([(driver(READER), facts())]),
            threads_per_driver: 2,
            node_root: None,
        };
        Self {
            mounter: LocalMounter::new(config).unwrap(),
            disks,
            folder,
        }
    }

    async fn read(&self) -> Result<Instance, MountError> {
        self.mounter.config_drive(driver(READER)).await
    }

    async fn refused(&self) -> String {
        self.read().await.unwrap_err().to_string()
    }

    async fn assert_is_read(&self) {
        let expected = Instance::of_meta_data(META_DATA.as_bytes()).unwrap();
        assert_eq!(self.read().await, Ok(expected));
    }
}

#[tokio::test]
async fn on_other_kernel_a_config_drive_is_read_as_nova_makes_it() {
    let scene = Scene::new();
    let missing = scene.read().await.unwrap_err();
    assert!(matches!(missing, MountError::NotFound(_)), "{missing}");
    scene.disks.iso(0, LABEL, META_DATA);
    scene.assert_is_read().await;
    // Nothing is left of the mount.
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!table.contains("iso9660"), "{table}");
    scene.disks.iso(0, "config-3", META_DATA);
    assert!(matches!(scene.read().await, Err(MountError::NotFound(_))));
    scene.disks.fat(0, LABEL, META_DATA);
    scene.assert_is_read().await;
    scene.disks.fat(0, "CONFIG-2", META_DATA);
    scene.assert_is_read().await;
}

#[tokio::test]
async fn on_other_kernel_a_second_config_drive_is_refused() {
    let scene = Scene::new();
    scene.disks.iso(0, LABEL, META_DATA);
    scene.disks.fat(1, LABEL, r#"{"uuid":"forged"}"#);
    let names = [0, 1].map(|index| scene.disks.path(index).display().to_string());
    let refused = scene.refused().await;
    assert!(refused.contains(&names.join(" and ")), "{refused}");
    assert!(refused.contains("could be a forgery"), "{refused}");
    scene.disks.fat(1, "data", "{}");
    scene.assert_is_read().await;
}

#[tokio::test]
async fn on_other_kernel_a_device_of_a_driver_is_no_config_drive() {
    let scene = Scene::new();
    scene.disks.iso(0, LABEL, r#"{"uuid":"forged"}"#);
    let name = scene.disks.path(0).file_name().unwrap().to_str().unwrap();
    let wwid = fs::read_to_string(format!("/sys/block/{name}/device/wwid")).unwrap();
    let volumes = Grants {
        devices: vec![DeviceGrant {
            facts: BTreeMap::from([(DeviceFact::Wwid, wwid.trim().to_owned())]),
            rescan: false,
            mount_options: Vec::new(),
        }],
        ..Grants::default()
    };
    let other = driver("volumes.test");
    scene.mounter.set_grants(&other, Some(volumes)).unwrap();
    let refused = scene.read().await.unwrap_err();
    assert!(matches!(refused, MountError::NotFound(_)), "{refused}");
    assert!(
        !refused.to_string().contains(&format!("/dev/{name}")),
        "{refused}"
    );
    // Beside it the real one is found.
    scene.disks.iso(1, LABEL, META_DATA);
    scene.assert_is_read().await;
}

#[tokio::test]
async fn on_other_kernel_a_mounted_config_drive_is_refused() {
    let scene = Scene::new();
    scene.disks.iso(0, LABEL, META_DATA);
    let place = scene.folder.path().join("place");
    fs::create_dir(&place).unwrap();
    let place = place.to_str().unwrap();
    let disk = scene.disks.path(0).to_str().unwrap();
    run("mount", &["-t", "iso9660", "-o", "ro", disk, place]);
    let refused = scene.read().await;
    run("umount", &[place]);
    assert!(matches!(refused, Err(MountError::InUse(_))), "{refused:?}");
    // A loop device does not hold what it lies on; kubelet attaches one to a raw block volume.
    run("losetup", &["--find", disk]);
    let refused = scene.read().await;
    run("losetup", &["-D"]);
    assert!(matches!(refused, Err(MountError::InUse(_))), "{refused:?}");
    scene.assert_is_read().await;
}

#[tokio::test]
async fn on_other_kernel_a_config_drive_is_for_granted_drivers() {
    let scene = Scene::new();
    scene.disks.iso(0, LABEL, META_DATA);
    let other = scene.mounter.config_drive(driver("other.test")).await;
    let refused = other.unwrap_err();
    assert!(
        matches!(refused, MountError::NotGranted { .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("grants.nodeFacts"),
        "{refused}"
    );
    scene
        .mounter
        .set_grants(&driver("other.test"), Some(facts()))
        .unwrap();
    assert!(
        scene
            .mounter
            .config_drive(driver("other.test"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn on_other_kernel_a_hostile_config_drive_tells_nothing() {
    let scene = Scene::new();
    let bound = usize::try_from(META_DATA_BYTES).unwrap();
    let padded = |bytes: usize| format!("{META_DATA}{}", " ".repeat(bytes - META_DATA.len()));
    scene.disks.iso(0, LABEL, &padded(bound));
    scene.assert_is_read().await;
    scene.disks.iso(0, LABEL, &padded(bound + 1));
    assert!(scene.refused().await.contains("larger than 1048576 bytes"));
    scene.disks.iso(0, LABEL, r#"{"admin_pass":"hunter22"}"#);
    let refused = scene.refused().await;
    assert!(refused.contains("not the JSON of an instance"), "{refused}");
    assert!(!refused.contains("hunter"), "{refused}");
    // The node's own file, by a link out of the drive.
    let own = scene.folder.path().join("meta_data.json");
    fs::write(&own, META_DATA).unwrap();
    scene.disks.iso_with_link(0, LABEL, own.to_str().unwrap());
    assert!(
        scene
            .refused()
            .await
            .starts_with("open on openstack/latest")
    );
}

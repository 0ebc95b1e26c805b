//! A kubelet's directory that does not pass mounts on: volumes would be mounted where no pod sees them, so the host beside a kubelet is not
//! ready until an administrator mends it, and stays alive meanwhile.
//!
//! The directory is a mount of its own here, so that the machine's other mounts keep the propagation that they have.

use rustix::mount::{MountPropagationFlags, mount_change};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use wasmount_tests::health::Health;
use wasmount_tests::root::needs_root;
use wasmount_tests::small_disk::SmallDisk;
use xtask::place::Place;
use xtask::served::{ServeOptions, Served};
use xtask::workspace::Workspace;

/// Temporary directories of this test.
const PREFIX: &str = "wasmount-unshared-";

/// Of the file system at the kubelet's directory; it holds some empty directories.
const DISK_BYTES: u64 = 1 << 20;

/// What every kubelet makes at its start.
const REGISTRY: &str = "plugins_registry";

const READY: &str = "directory.wasmount.io: ok\n";

/// A host beside a kubelet. What is first goes first: the host, what is mounted, the place.
struct BesideKubelet {
    served: Served,
    _disk: SmallDisk,
    place: Place,
    health: Health,
}

impl BesideKubelet {
    fn start(propagation: MountPropagationFlags) -> Self {
        needs_root();
        let place = Place::create(PREFIX).unwrap();
        let disk = SmallDisk::mount(&place.kubelet(), DISK_BYTES).unwrap();
        mount_change(place.kubelet(), propagation).unwrap();
        fs::create_dir(place.kubelet().join(REGISTRY)).unwrap();
        let health = Health::at_a_free_port().unwrap();
        let workspace = Workspace::locate().unwrap();
        let mut served = Served::start(&ServeOptions {
            program: workspace.host_program(),
            wrapper: Vec::new(),
            backends: vec![workspace.backend_document("directory")],
            data: place.data(),
            run: place.run(),
            sockets: place.sockets(),
            kubelet: place.kubelet(),
            node_id: "test-node".to_owned(),
            role: "node".to_owned(),
            health: health.address(),
            // There is only its directory.
            more: ["--registration", "off"].map(OsString::from).to_vec(),
            log: place.log(),
        })
        .unwrap();
        served.sockets().unwrap();
        Self {
            served,
            _disk: disk,
            place,
            health,
        }
    }

    fn kubelet(&self) -> PathBuf {
        self.place.kubelet()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.log()).unwrap()
    }

    fn end(mut self) {
        assert!(self.served.process.terminate().unwrap().success());
    }
}

#[test]
fn privileged_a_private_root_beside_kubelet_is_not_ready() {
    let host = BesideKubelet::start(MountPropagationFlags::PRIVATE);
    let sentence = format!(
        "directory.wasmount.io: path root {} is not on a shared mount, so pods would not see the volumes; run `mount --make-rshared` on it, or mount it into the host's container with mountPropagation: Bidirectional\n",
        host.kubelet().display()
    );
    host.health.becomes("/readyz", "503", &sentence).unwrap();
    assert_eq!(
        host.health.get("/healthz").unwrap(),
        ("200".to_owned(), READY.to_owned())
    );
    let said = "mounts of this process would be invisible to kubelet";
    assert!(host.log().contains(said), "{}", host.log());
    mount_change(host.kubelet(), MountPropagationFlags::SHARED).unwrap();
    host.health.becomes("/readyz", "200", READY).unwrap();
    host.end();
}

#[test]
fn privileged_beside_a_kubelet_a_shared_root_is_ready() {
    let host = BesideKubelet::start(MountPropagationFlags::SHARED);
    host.health.becomes("/readyz", "200", READY).unwrap();
    assert_eq!(
        host.health.get("/healthz").unwrap(),
        ("200".to_owned(), READY.to_owned())
    );
    assert!(!host.log().contains("shared mount"), "{}", host.log());
    host.end();
}

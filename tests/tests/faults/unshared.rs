//! A kubelet's directory that does not pass mounts on: volumes would be mounted where no pod sees them, so the host beside a kubelet is not
//! ready until an administrator mends it, and stays alive meanwhile.
//!
//! The directory is a mount of its own here, so that the machine's other mounts keep the propagation that they have.

use rustix::mount::{MountPropagationFlags, mount_change};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
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

/// Until a health check must answer as expected: the plugin is compiled meanwhile, and the host looks at its roots every 10 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two checks.
const PAUSE: Duration = Duration::from_millis(50);

const READY: &str = "directory.wasmount.io: ok\n";

/// A host beside a kubelet. What is first goes first: the host, what is mounted, the place.
struct BesideKubelet {
    served: Served,
    _disk: SmallDisk,
    place: Place,
    health: SocketAddr,
}

impl BesideKubelet {
    fn start(propagation: MountPropagationFlags) -> Self {
        needs_root();
        let place = Place::create(PREFIX).unwrap();
        let disk = SmallDisk::mount(&place.kubelet(), DISK_BYTES).unwrap();
        mount_change(place.kubelet(), propagation).unwrap();
        fs::create_dir(place.kubelet().join(REGISTRY)).unwrap();
        // Free a moment ago; should another take it meanwhile, the host ends and says so.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let health = free.local_addr().unwrap();
        drop(free);
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
            health: health.to_string(),
            more: Vec::new(),
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

    /// Status and body of a health check.
    fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.health).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap_or_default();
        (status.to_owned(), body.to_owned())
    }

    /// Asks until the answer is this one.
    fn becomes(&self, path: &str, status: &str, body: &str) {
        let expected = (status.to_owned(), body.to_owned());
        let start = Instant::now();
        let mut answer = self.get(path);
        while answer != expected && start.elapsed() < PATIENCE {
            thread::sleep(PAUSE);
            answer = self.get(path);
        }
        assert_eq!(answer, expected, "{path}");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.log()).unwrap()
    }

    fn end(mut self) {
        assert!(self.served.terminate().unwrap().success());
    }
}

#[test]
fn privileged_beside_a_kubelet_a_private_root_is_not_ready_until_it_is_shared() {
    let host = BesideKubelet::start(MountPropagationFlags::PRIVATE);
    let sentence = format!(
        "directory.wasmount.io: path root {} is not on a shared mount, so pods would not see the volumes; run `mount --make-rshared` on it, or mount it into the host's container with mountPropagation: Bidirectional\n",
        host.kubelet().display()
    );
    host.becomes("/readyz", "503", &sentence);
    assert_eq!(host.get("/healthz"), ("200".to_owned(), READY.to_owned()));
    let said = "kubelet would not see volumes that are mounted here";
    assert!(host.log().contains(said), "{}", host.log());
    mount_change(host.kubelet(), MountPropagationFlags::SHARED).unwrap();
    host.becomes("/readyz", "200", READY);
    host.end();
}

#[test]
fn privileged_beside_a_kubelet_a_shared_root_is_ready() {
    let host = BesideKubelet::start(MountPropagationFlags::SHARED);
    host.becomes("/readyz", "200", READY);
    assert_eq!(host.get("/healthz"), ("200".to_owned(), READY.to_owned()));
    assert!(!host.log().contains("shared mount"), "{}", host.log());
    host.end();
}

//! The mounter in a container as `wasmount manifests` prints it (`--node-root`): it has neither open-iscsi nor multipath-tools, and runs those of the node.

use super::{BYTES, Node, Playground, entries, iscsi, nvme, run, until};
use crate::printed_pod::Pod;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tonic::Code;
use wasmount_tests::array::Protocol;
use wasmount_tests::host::HostOptions;
use wasmount_tests::leaks::below;
use wasmount_tests::orchestrator::Volume;
use wasmount_tests::requests;
use xtask::mountinfo::mounts_below;
use xtask::process::Process;

/// What calls are answered until the mounter listens.
const MOUNTER_STARTS: [Code; 1] = [Code::Unavailable];

/// The node's multipathd makes no map of its own accord, and looks at no disk of the VM.
const MULTIPATH: &str = r#"
defaults { find_multipaths strict }
blacklist { devnode "^(loop|ubd|nvme)" }
"#;

/// An array, a host, and its mounter in a container.
struct Contained {
    playground: Playground,
    pod: Pod,
    mounter: Process,
    /// What is mounted in the VM.
    mounts: Vec<PathBuf>,
}

impl Contained {
    async fn start(protocol: Protocol) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = HostOptions {
            mounter: Some(folder.path().join("mounter/mounter.sock")),
            ..HostOptions::default()
        };
        let playground = Playground::start_at(Ipv4Addr::LOCALHOST.into(), protocol, options).await;
        let kubelet = format!("--kubelet-dir={}", playground.host.kubelet().display());
        let pod = Pod::printed(
            folder,
            "DaemonSet",
            &playground.document,
            "array",
            &[kubelet.as_str()],
        );
        let mounts = mounts();
        let mounter = pod.start(&pod.container("mounter"));
        Self {
            playground,
            pod,
            mounter,
            mounts,
        }
    }

    async fn node(&self) -> Node {
        self.playground.node(&MOUNTER_STARTS).await
    }

    /// The container is killed and started again.
    fn restart(&mut self) {
        self.mounter.kill_9().unwrap();
        self.mounter = self.pod.start(&self.pod.container("mounter"));
    }

    /// Ends it; nothing is left, in the container's directories of the node neither, and the VM has what it had.
    fn end(mut self) {
        let records = self.pod.volume("mounts").join("mounts");
        for directory in [self.pod.volume("run"), records] {
            let mut left = below(&directory).unwrap();
            left.retain(|path| !path.is_dir());
            assert_eq!(left, Vec::<PathBuf>::new());
        }
        assert!(self.mounter.terminate().unwrap().success());
        assert_eq!(mounts(), self.mounts);
        self.playground.end();
    }
}

/// Brings a volume, which outlives a container, and takes it from the node.
async fn bring(contained: &mut Contained) -> (Node, Volume) {
    let node = contained.node().await;
    let volume = node.bring(requests::create("pvc", BYTES)).await.unwrap();
    volume.write("written").unwrap();
    contained.restart();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "written");
    node.hide(&volume).await.unwrap();
    (node, volume)
}

/// Finds it again.
async fn show(node: &Node, volume: &Volume) {
    node.show(volume).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_a_mounter_in_a_container_connects() {
    let mut contained = Contained::start(nvme()).await;
    let (node, volume) = bring(&mut contained).await;
    show(&node, &volume).await;
    node.remove(&volume).await.unwrap();
    contained.end();
}

/// The node's udev and multipathd.
struct Daemons {
    processes: Vec<Process>,
    logs: TempDir,
}

impl Daemons {
    fn start() -> Self {
        run("modprobe", &["-a", "dm-multipath", "dm-service-time"]);
        fs::write("/etc/multipath.conf", MULTIPATH).unwrap();
        let mut daemons = Self {
            processes: Vec::new(),
            logs: tempfile::tempdir().unwrap(),
        };
        daemons.run("/lib/systemd/systemd-udevd", &[]);
        until("udevd answers", || {
            answers("udevadm", &["control", "--ping"])
        });
        daemons.run("multipathd", &["-d"]);
        until("multipathd answers", || {
            answers("multipathd", &["show", "daemon"])
        });
        daemons
    }

    fn run(&mut self, program: &str, arguments: &[&str]) {
        let mut command = Process::command();
        command.arg(program).args(arguments);
        let process = Process::start(command, &self.logs.path().join("log"));
        self.processes.push(process.unwrap());
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        // udev's database must not have disks that are gone.
        let _ = answers("udevadm", &["settle", "--timeout=60"]);
        self.processes.clear();
        // Where libdevmapper would wait for udev.
        let _ = fs::remove_file("/run/udev/control");
        // With it, this node would be one that joins paths.
        let _ = answers("modprobe", &["-r", "dm-service-time", "dm-multipath"]);
    }
}

/// All mounts that this process sees, in order.
fn mounts() -> Vec<PathBuf> {
    let mut mounts = mounts_below(Path::new("/")).unwrap();
    mounts.sort();
    mounts
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|it| it.status.success())
}

/// How many paths each multipath map of this kernel has.
fn maps() -> Vec<usize> {
    let devices = entries(Path::new("/sys/class/block")).into_iter();
    let maps = devices.filter(|device| {
        let uuid = fs::read_to_string(device.join("dm/uuid"));
        uuid.is_ok_and(|uuid| uuid.starts_with("mpath-"))
    });
    maps.map(|map| entries(&map.join("slaves")).len()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_a_mounter_in_a_container_logs_in() {
    let mut contained = Contained::start(iscsi()).await;
    let (node, volume) = bring(&mut contained).await;
    // From now on the node joins paths.
    let _daemons = Daemons::start();
    show(&node, &volume).await;
    assert_eq!(maps(), [2]);
    contained.restart();
    node.remove(&volume).await.unwrap();
    contained.end();
}

//! plugins/array with disks of the kernel's own targets, by iSCSI and by NVMe over TCP, through a real host, in a VM that is array and node.

mod authentication;
mod conformance;
mod contained;
mod faults;
mod kills;
mod lives;
mod reboot;
mod sanity;
mod speed;
mod two_kernels;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tonic::{Code, Status};
use two_kernels::SECOND_NODE;
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::array::{Array, ArrayOptions, Protocol};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::left_behind;
use wasmount_tests::loop_disk::LoopDisk;
use wasmount_tests::orchestrator::{Orchestrator, Volume, patiently};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::requests;

/// Size of a volume, in bytes.
const BYTES: i64 = 64 << 20;

/// The directory of the array.
const DISK: &str = "disk";

/// Size of the disk of the array, which is sparse: the smallest xfs is 300 MiB.
const DISK_BYTES: u64 = 1 << 30;

/// The node of a host, unless a test has several.
const NODE: &str = "test-node";

/// Names of this node's initiators: the VM has a number.
const IQN: &str = "iqn.2026-01.test.wasmount:node-";
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-00000000000";

/// What the names of the array's subsystems, and the identities of LIO's disks, begin with.
const SUBSYSTEM: &str = "nqn.2026-01.io.wasmount:array";
const WWID: &str = "naa.6001405";

/// What an administrator chooses: a lost path fails requests after some time, and not after two minutes.
const CONFIGURATION: &str = "\nnode.session.timeo.replacement_timeout = 60\n";

/// Until the kernel or `iscsid` has done something by itself.
const SOON: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// An array with a data path on a disk that shares blocks, and a host that is granted it.
struct Playground {
    /// `None` once it has ended.
    array: Option<Array>,
    document: PathBuf,
    host: Host,
    /// How often the host was killed: nobody ends its session with the array.
    kills: usize,
    contents: PathBuf,
    /// What is removed at the end; none if it is to outlive this kernel.
    _temporary: Option<(LoopDisk, TempDir)>,
}

impl Playground {
    async fn start(protocol: Protocol) -> Self {
        let options = HostOptions {
            any_paths: true,
            ..HostOptions::default()
        };
        let playground = Self::start_at(Ipv4Addr::LOCALHOST.into(), protocol, options).await;
        playground.wait_until_known(NODE);
        playground
    }

    /// The same with the API of the array at this address, and with other options of the host.
    async fn start_at(address: IpAddr, protocol: Protocol, options: HostOptions) -> Self {
        prepare_node();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        fs::create_dir(path.join(DISK)).unwrap();
        let disk = LoopDisk::mount_as("xfs", &path.join(DISK), DISK_BYTES).unwrap();
        let address = (address, 0).into();
        Self::start_in(&path, Some((disk, folder)), address, protocol, options).await
    }

    async fn start_in(
        folder: &Path,
        temporary: Option<(LoopDisk, TempDir)>,
        address: SocketAddr,
        protocol: Protocol,
        options: HostOptions,
    ) -> Self {
        let path = folder.join(DISK);
        let array = ArrayOptions {
            directory: Some(path.clone()),
            protocol: protocol.clone(),
            hosts: Vec::new(),
            ..ArrayOptions::default()
        };
        let array = Array::listen(address, array).await.unwrap();
        let document = documents::array_with(folder, array.address(), &protocol);
        let document = document.unwrap();
        let host = host(&document, options);
        Self {
            array: Some(array),
            document,
            host,
            kills: 0,
            contents: path.join("contents"),
            _temporary: temporary,
        }
    }

    async fn node(&self, again: &'static [Code]) -> Node {
        self.wait_until_known(NODE);
        Node::of(&self.host, NODE, again).await
    }

    /// Its host registers a node once it has read the facts of the node. Before, the array attaches nothing to it.
    fn wait_until_known(&self, node: &str) {
        until("the node is a host of the array", || {
            let hosts = self.array().counts().hosts;
            hosts.iter().any(|host| host == node)
        });
    }

    fn array(&self) -> &Array {
        self.array.as_ref().unwrap()
    }

    /// Ends it; nothing is left of what it had: no session, disk, target, file, mount or journal entry.
    fn end(mut self) {
        let left = left_behind(&self.host, &self.contents).unwrap();
        assert_eq!(left, [""; 0]);
        let counts = self.array().counts();
        let objects = (counts.volumes, counts.snapshots, counts.attachments);
        assert_eq!(objects, (vec![], vec![], vec![]));
        let is_known = |host: &String| [NODE, SECOND_NODE].contains(&host.as_str());
        assert!(counts.hosts.iter().all(is_known), "{:?}", counts.hosts);
        assert_node_is_free();
        assert_eq!(shown(), [""; 0]);
        self.host.terminate().unwrap();
        let sessions = self.array().counts().sessions;
        assert!(sessions <= self.kills, "{sessions} sessions are left");
        self.array.take().unwrap().stop().unwrap();
        assert_eq!(targets(), [""; 0]);
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        // A test that failed must not keep the addresses from the next one.
        if let Some(array) = self.array.take() {
            let _ = array.stop();
        }
    }
}

fn host(document: &Path, options: HostOptions) -> Host {
    let host = Host::start(HostOptions {
        backends: vec![document.to_owned()],
        ..options
    });
    host.unwrap()
}

/// Two portals of each protocol.
fn iscsi() -> Protocol {
    Protocol::Iscsi(
        ["127.0.0.1:3260", "127.0.0.2:3260"]
            .map(|it| it.parse().unwrap())
            .into(),
    )
}

fn nvme() -> Protocol {
    Protocol::NvmeTcp(
        ["127.0.0.1:4420", "127.0.0.2:4420"]
            .map(|it| it.parse().unwrap())
            .into(),
    )
}

/// Makes this kernel a node, with the initiators of both protocols.
fn prepare_node() {
    needs_other_kernel();
    let number = std::env::var("WASMOUNT_VM").unwrap();
    let modules = ["-a", "loop", "iscsi_tcp", "sd_mod", "nvme-tcp"];
    run("modprobe", &modules);
    fs::create_dir_all("/etc/nvme").unwrap();
    fs::write("/etc/nvme/hostnqn", format!("{NQN}{number}\n")).unwrap();
    if !Path::new("/run/iscsid.pid").exists() {
        let configuration = "/etc/iscsi/iscsid.conf";
        let chosen = fs::read_to_string(configuration).unwrap() + CONFIGURATION;
        fs::write(configuration, chosen).unwrap();
        let name = format!("InitiatorName={IQN}{number}\n");
        fs::write("/etc/iscsi/initiatorname.iscsi", name).unwrap();
        run("iscsid", &["--pid=/run/iscsid.pid"]);
    }
}

/// An orchestrator of one node, which repeats each call while it answers one of some codes.
struct Node {
    orchestrator: Orchestrator,
    name: &'static str,
    again: &'static [Code],
}

impl Node {
    async fn of(host: &Host, name: &'static str, again: &'static [Code]) -> Self {
        Self {
            orchestrator: host.orchestrator().await.unwrap(),
            name,
            again,
        }
    }

    /// A volume from its creation to its first pod.
    async fn bring(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let name = request.name.clone();
        let create = || self.orchestrator.create(request.clone());
        let (id, _) = patiently(self.again, create).await?;
        let volume = self.orchestrator.place(&name, id).unwrap();
        self.show(&volume).await?;
        Ok(volume)
    }

    /// A volume that is there, to its first pod.
    async fn show(&self, volume: &Volume) -> Result<(), Status> {
        let attach = || self.orchestrator.attach(&volume.id, self.name);
        let publish_context = patiently(self.again, attach).await?;
        let mut stage = requests::stage(&volume.id, &volume.staging);
        stage.publish_context = publish_context.clone();
        patiently(self.again, || self.orchestrator.stage_as(stage.clone())).await?;
        let mut publish = requests::publish(&volume.id, &volume.staging, &volume.target);
        publish.publish_context = publish_context;
        let publish = || self.orchestrator.publish_as(publish.clone());
        patiently(self.again, publish).await
    }

    /// Takes it from the node.
    async fn hide(&self, volume: &Volume) -> Result<(), Status> {
        patiently(self.again, || self.orchestrator.unpublish(volume)).await?;
        patiently(self.again, || self.orchestrator.unstage(volume)).await?;
        let detach = || self.orchestrator.detach(&volume.id, self.name);
        patiently(self.again, detach).await
    }

    /// The same, and deletes it.
    async fn remove(&self, volume: &Volume) -> Result<(), Status> {
        self.hide(volume).await?;
        patiently(self.again, || self.orchestrator.delete(&volume.id)).await
    }
}

/// No session, connection, disk or map of an array.
fn assert_node_is_free() {
    let found = || {
        let disks = attributes("/sys/class/scsi_device", "device/wwid");
        let disks = disks.into_iter().filter(|it| it.starts_with(WWID));
        let sessions = attributes("/sys/class/iscsi_session", "targetname");
        disks
            .chain(sessions)
            .chain(subsystems())
            .chain(attributes("/sys/class/block", "dm/name"))
            .collect::<Vec<_>>()
    };
    until("the node is free of the array", || found().is_empty());
}

/// The subsystems that this kernel is connected to, each as often as it has paths.
fn subsystems() -> Vec<String> {
    let mut all = attributes("/sys/class/nvme", "subsysnqn");
    all.retain(|name| name.starts_with(SUBSYSTEM));
    all
}

/// The volumes that the kernel's targets show.
fn shown() -> Vec<String> {
    let config = Path::new("/sys/kernel/config");
    let adapters = entries(&config.join("target/core"));
    let of_iscsi = adapters.iter().flat_map(|it| entries(it));
    let of_nvme = entries(&config.join("nvmet/subsystems"));
    let names = of_iscsi.chain(of_nvme).map(|it| name(&it));
    names.filter(|it| it.contains("vol-")).collect()
}

/// What is left in the kernel of any target.
fn targets() -> Vec<String> {
    let config = Path::new("/sys/kernel/config");
    let iscsi = entries(&config.join("target/iscsi"));
    let nvme = ["subsystems", "ports", "hosts"];
    let nvme = nvme.map(|it| entries(&config.join("nvmet").join(it)));
    let all = iscsi.into_iter().chain(nvme.into_iter().flatten());
    let is_made = |path: &PathBuf| path.is_dir() && !path.ends_with("discovery_auth");
    all.filter(is_made).map(|it| name(&it)).collect()
}

/// An attribute of each object of a class of the kernel.
fn attributes(class: &str, attribute: &str) -> Vec<String> {
    let objects = entries(Path::new(class)).into_iter();
    let texts = objects.filter_map(|it| fs::read_to_string(it.join(attribute)).ok());
    texts.map(|it| it.trim().to_owned()).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Waits for something that happens by itself.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "not within {SOON:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
}

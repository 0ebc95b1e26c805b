//! The kernel's NVMe target on loopback (drivers/nvme/target/configfs.c): a subsystem with namespaces on loop devices, at several addresses.

use crate::host::Host;
use crate::support::{eventually, run};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// The subsystem.
pub(crate) const NQN: &str = "nqn.2026-01.io.wasmount:target";
/// Where the target's configuration is mounted, and what is in it.
const CONFIG: &str = "/sys/kernel/config";
/// The UUID of a namespace that has none.
const NO_UUID: &str = "00000000-0000-0000-0000-000000000000";
/// The first port of TCP; each address has its own.
const FIRST_PORT: u16 = 4420;

/// There is one target in a kernel.
static ONE: Mutex<()> = Mutex::new(());

/// A namespace of a target.
struct Namespace {
    id: u32,
    uuid: String,
    file: PathBuf,
    /// The loop device.
    device: PathBuf,
}

/// A target. It ends with its value, and so do all connections of this kernel to its subsystem.
pub(crate) struct Target {
    folder: PathBuf,
    /// Removes it.
    _owned: Option<TempDir>,
    addresses: u16,
    namespaces: Vec<Namespace>,
    _one: MutexGuard<'static, ()>,
}

impl Target {
    /// Starts it at so many addresses, without namespaces, for any host. Panics with one line where the kernel has no target.
    pub(crate) fn start(addresses: u16) -> Self {
        let owned = tempfile::tempdir().unwrap();
        let mut target = Self::start_in(owned.path(), addresses);
        target._owned = Some(owned);
        target
    }

    fn start_in(folder: &Path, addresses: u16) -> Self {
        fs::create_dir_all(folder).unwrap();
        for module in ["loop", "nvmet", "nvmet-tcp", "nvme-tcp"] {
            let _ = Command::new("modprobe").arg(module).output();
        }
        let _ = Command::new("mount")
            .args(["-t", "configfs", "configfs", CONFIG])
            .output();
        assert!(
            Path::new(CONFIG).join("nvmet").is_dir() && Path::new("/dev/nvme-fabrics").exists(),
            "this kernel has no NVMe over TCP: run this test in the VM"
        );
        let target = Self {
            folder: folder.to_owned(),
            _owned: None,
            addresses,
            namespaces: Vec::new(),
            _one: ONE.lock().unwrap_or_else(PoisonError::into_inner),
        };
        fs::create_dir(subsystem()).unwrap();
        write(&subsystem().join("attr_allow_any_host"), "1");
        for index in 0..addresses {
            let port = port(index);
            fs::create_dir(&port).unwrap();
            for (attribute, value) in [
                ("addr_trtype", "tcp"),
                ("addr_adrfam", "ipv4"),
                ("addr_traddr", "127.0.0.1"),
                ("addr_trsvcid", &(FIRST_PORT + index).to_string()),
            ] {
                write(&port.join(attribute), value);
            }
            target.resume(index);
        }
        target
    }

    /// One of its addresses.
    pub(crate) fn address(index: u16) -> String {
        format!("127.0.0.1:{}", FIRST_PORT + index)
    }

    /// Adds a namespace, on a file of this size.
    pub(crate) fn add(&mut self, id: u32, uuid: &str, bytes: u64) {
        self.add_named(id, &[("device_uuid", uuid)], bytes);
    }

    /// The same with an NGUID in place of a UUID.
    pub(crate) fn add_with_nguid(&mut self, id: u32, nguid: &str, bytes: u64) {
        let names = [("device_uuid", NO_UUID), ("device_nguid", nguid)];
        self.add_named(id, &names, bytes);
    }

    /// The last name is that of its file, too.
    fn add_named(&mut self, id: u32, names: &[(&str, &str)], bytes: u64) {
        let (_, uuid) = *names.last().unwrap();
        let file = self.folder.join(uuid);
        let opened = fs::File::options().append(true).create(true).open(&file);
        opened.unwrap().set_len(bytes).unwrap();
        let device = run("losetup", &["--find", "--show", file.to_str().unwrap()]);
        let device = PathBuf::from(device.trim());
        let attributes = namespace(id);
        fs::create_dir(&attributes).unwrap();
        write(&attributes.join("device_path"), device.to_str().unwrap());
        for (attribute, name) in names {
            write(&attributes.join(attribute), name);
        }
        write(&attributes.join("enable"), "1");
        let uuid = uuid.to_owned();
        self.namespaces.push(Namespace {
            id,
            uuid,
            file,
            device,
        });
    }

    /// Removes a namespace.
    pub(crate) fn remove(&mut self, id: u32) {
        let attributes = namespace(id);
        write(&attributes.join("enable"), "0");
        fs::remove_dir(&attributes).unwrap();
        let at = self.namespaces.iter().position(|it| it.id == id).unwrap();
        let removed = self.namespaces.remove(at);
        run("losetup", &["--detach", removed.device.to_str().unwrap()]);
    }

    /// Gives a namespace more space.
    pub(crate) fn grow(&self, id: u32, bytes: u64) {
        let grown = self.namespace(id);
        let file = fs::File::options().write(true).open(&grown.file).unwrap();
        file.set_len(bytes).unwrap();
        run(
            "losetup",
            &["--set-capacity", grown.device.to_str().unwrap()],
        );
        write(&namespace(id).join("revalidate_size"), "1");
    }

    /// What is stored of a namespace.
    pub(crate) fn file(&self, id: u32) -> &Path {
        &self.namespace(id).file
    }

    /// The device that shows a namespace on this kernel, over all paths.
    pub(crate) fn device(&self, id: u32) -> String {
        let wwid = format!("uuid.{}", self.namespace(id).uuid);
        eventually("the namespace", || {
            let devices = fs::read_dir("/sys/class/block").unwrap();
            let names = devices.map(|it| it.unwrap().file_name().into_string().unwrap());
            let mut devices = names.map(|name| (format!("/dev/{name}"), name));
            let found = devices.find(|(device, name)| {
                let shown = fs::read_to_string(format!("/sys/class/block/{name}/wwid"));
                // A single path has no node, and a node appears before it can be opened (Linux, `device_add_disk`).
                fs::File::open(device).is_ok() && shown.is_ok_and(|shown| shown.trim() == wwid)
            });
            found.map(|(device, _)| device)
        })
    }

    /// Takes only this host, with these keys.
    pub(crate) fn allow(&self, host: &str, host_key: &str, controller_key: &str) {
        let attributes = Path::new(CONFIG).join("nvmet/hosts").join(host);
        fs::create_dir(&attributes).unwrap();
        write(&attributes.join("dhchap_key"), host_key);
        write(&attributes.join("dhchap_ctrl_key"), controller_key);
        write(&subsystem().join("attr_allow_any_host"), "0");
        symlink(&attributes, subsystem().join("allowed_hosts").join(host)).unwrap();
    }

    fn namespace(&self, id: u32) -> &Namespace {
        let mut namespaces = self.namespaces.iter();
        namespaces.find(|it| it.id == id).unwrap()
    }

    /// Ends the connections at an address, and takes no new ones.
    pub(crate) fn pause(&self, index: u16) {
        fs::remove_file(port(index).join("subsystems").join(NQN)).unwrap();
    }

    /// Takes connections at an address.
    pub(crate) fn resume(&self, index: u16) {
        symlink(subsystem(), port(index).join("subsystems").join(NQN)).unwrap();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        for controller in controllers() {
            let _ = fs::write(controller.join("delete_controller"), "1");
        }
        for index in 0..self.addresses {
            let _ = fs::remove_file(port(index).join("subsystems").join(NQN));
            let _ = fs::remove_dir(port(index));
        }
        while let Some(Namespace { id, .. }) = self.namespaces.first() {
            self.remove(*id);
        }
        for host in fs::read_dir(subsystem().join("allowed_hosts")).unwrap() {
            let host = host.unwrap();
            let _ = fs::remove_file(host.path());
            let all = Path::new(CONFIG).join("nvmet/hosts");
            let _ = fs::remove_dir(all.join(host.file_name()));
        }
        let _ = fs::remove_dir(subsystem());
    }
}

/// The controllers of this kernel that are connected to the subsystem, in sysfs.
pub(crate) fn controllers() -> Vec<PathBuf> {
    let all = fs::read_dir("/sys/class/nvme").into_iter().flatten();
    let all = all.map(|entry| entry.unwrap().path());
    let is_ours = |path: &PathBuf| {
        fs::read_to_string(path.join("subsysnqn")).is_ok_and(|nqn| nqn.trim() == NQN)
    };
    all.filter(is_ours).collect()
}

/// Their states, sorted.
pub(crate) fn states() -> Vec<String> {
    let states = controllers().into_iter();
    let states = states.filter_map(|it| fs::read_to_string(it.join("state")).ok());
    let mut states: Vec<_> = states.map(|it| it.trim().to_owned()).collect();
    states.sort();
    states
}

/// Has the kernel connect to one of the addresses, as nvme-cli does; returns its answer.
pub(crate) fn connect(index: u16, options: &str) -> String {
    let mut fabrics = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/nvme-fabrics")
        .unwrap();
    let address = Target::address(index);
    let (ip, port) = address.split_once(':').unwrap();
    let options = format!(
        "transport=tcp,traddr={ip},trsvcid={port},nqn={NQN},reconnect_delay=1,ctrl_loss_tmo=60{options}"
    );
    fabrics.write_all(options.as_bytes()).unwrap();
    let mut answer = String::new();
    fabrics.read_to_string(&mut answer).unwrap();
    answer
}

/// No connection, no journal entry, no record.
pub(crate) fn assert_nothing_left(host: &Host) {
    assert!(controllers().is_empty(), "{:?}", controllers());
    assert_eq!((host.journal().len(), host.connections().len()), (0, 0));
}

fn subsystem() -> PathBuf {
    Path::new(CONFIG).join("nvmet/subsystems").join(NQN)
}

fn namespace(id: u32) -> PathBuf {
    subsystem().join("namespaces").join(id.to_string())
}

fn port(index: u16) -> PathBuf {
    Path::new(CONFIG)
        .join("nvmet/ports")
        .join((index + 1).to_string())
}

/// One write: the attributes take no line in two parts.
fn write(path: &Path, value: &str) {
    fs::write(path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

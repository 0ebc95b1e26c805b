//! A real Ceph of one node on 127.0.0.1, in a VM: the cluster that `xtask/src/vm/ceph.rs` made, in a root file system of its own. It ends with the VM,
//! which throws away what was written to it.

use std::fs;
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use wasmount_core::mutex::lock;
use xtask::command;
use xtask::failure::Failure;
use xtask::process::Process;
use xtask::vm;
use xtask::workspace::Workspace;

/// The monitor, for clients on the same machine.
pub const MONITOR: &str = "127.0.0.1:6789";

/// The REST API of ceph-mgr, without TLS.
pub const API: &str = "127.0.0.1:8080";

/// The user of the API, and its password.
pub const USER: (&str, &str) = ("csi", "password-of-tests");

/// The file system.
pub const FILE_SYSTEM: &str = "cephfs";

/// The group whose subvolumes the key of nodes is for.
pub const GROUP: &str = "csi";

/// The daemons, in the order in which they start.
const DAEMONS: [(&str, &str); 4] = [("mon", "a"), ("mgr", "a"), ("osd", "0"), ("mds", "a")];

/// Where they keep what they know.
const STATE: &str = "var/lib/ceph";

/// Timeout until the API listens: some seconds on an idle machine.
const START: Duration = Duration::from_secs(120);

/// Between two polls.
const LOOK: Duration = Duration::from_millis(100);

/// A running Ceph.
#[derive(Debug)]
pub struct Ceph {
    daemons: Vec<Process>,
    folder: PathBuf,
}

impl Ceph {
    /// The one of all tests of a program, started by the first of them. Its addresses are the machine's.
    pub fn shared() -> Result<&'static Self, Failure> {
        static SHARED: Mutex<Option<&'static Ceph>> = Mutex::new(None);
        let mut shared = lock(&SHARED);
        if let Some(running) = *shared {
            return Ok(running);
        }
        let running: &'static Self = Box::leak(Box::new(start_on_lasting_thread()?));
        *shared = Some(running);
        Ok(running)
    }

    fn start() -> Result<Self, Failure> {
        let made = vm::build_ceph(&Workspace::locate()?)?;
        let folder = tempfile::Builder::new()
            .prefix("wasmount-ceph-")
            .tempdir()
            .map_err(Failure::cannot("create a temporary directory"))?;
        let mut ceph = Self {
            daemons: Vec::new(),
            folder: folder.keep(),
        };
        ceph.mount(&made)?;
        for (kind, name) in DAEMONS {
            let mut command = Process::command();
            command.arg("chroot").arg(ceph.root());
            command.args([&format!("ceph-{kind}"), "-f", "-i", name]);
            let log = ceph.folder.join(format!("{kind}.log"));
            ceph.daemons.push(Process::start(command, &log)?);
        }
        ceph.wait()?;
        Ok(ceph)
    }

    /// The key of [`crate::documents::cephfs`].
    pub fn key(&self) -> Result<String, Failure> {
        let path = self.root().join("etc/ceph/kubernetes.key");
        let key = fs::read_to_string(&path);
        key.map_err(Failure::cannot(format!("read {}", path.display())))
    }

    /// Names of all subvolumes of the group, with those of which only snapshots are left.
    pub fn subvolumes(&self) -> Result<String, Failure> {
        let mut command = Command::new("chroot");
        command.arg(self.root());
        command.args(["ceph", "fs", "subvolume", "ls", FILE_SYSTEM, GROUP]);
        command::read(&mut command)
    }

    /// An overlay over what was made, with a copy of the cluster, whose disk is sparse.
    fn mount(&self, made: &Path) -> Result<(), Failure> {
        let [root, upper, work] = ["root", "upper", "work"].map(|it| self.folder.join(it));
        for directory in [&root, &upper, &work, &upper.join("var/lib")] {
            fs::create_dir_all(directory)
                .map_err(Failure::cannot(format!("create {}", directory.display())))?;
        }
        command::run(
            Command::new("cp")
                .args(["--archive", "--sparse=always"])
                .args([made.join(STATE), upper.join(STATE)]),
        )?;
        let layers = [made, &upper, &work].map(|it| it.display().to_string());
        let options = ["lowerdir=", ",upperdir=", ",workdir="];
        let options: String = options
            .iter()
            .zip(layers)
            .map(|(it, at)| format!("{it}{at}"))
            .collect();
        command::run(
            Command::new("mount")
                .args(["-t", "overlay", "-o", &options, "overlay"])
                .arg(&root),
        )?;
        for tree in ["dev", "proc"] {
            command::run(
                Command::new("mount")
                    .args(["--bind", &format!("/{tree}")])
                    .arg(root.join(tree)),
            )?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        let api: SocketAddrV4 = API
            .parse()
            .map_err(Failure::cannot("read the API's address"))?;
        while TcpStream::connect(api).is_err() {
            for daemon in &mut self.daemons {
                if let Some(status) = daemon.ended()? {
                    return Err(daemon.failed(format!("ended at start ({status})")));
                }
            }
            if start.elapsed() > START {
                let what = format!("Ceph's API does not listen after {} s", START.as_secs());
                return Err(Failure::Unexpected(what));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }
}

/// The kernel ends the daemons with the thread that started them, and the thread of the first test ends before the other tests do.
fn start_on_lasting_thread() -> Result<Ceph, Failure> {
    let (sender, started) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(Ceph::start());
        loop {
            thread::park();
        }
    });
    started
        .recv()
        .map_err(Failure::cannot("start Ceph on a thread of its own"))?
}

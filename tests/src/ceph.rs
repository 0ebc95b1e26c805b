//! A real Ceph of one node, in a VM: the cluster that `xtask/src/vm/system.rs` made, in a root file system of its own. It ends with the VM,
//! which throws away what was written to it.

use crate::lasting_thread::on_lasting_thread;
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use wasmount_core::mutex::lock;
use xtask::command;
use xtask::failure::Failure;
use xtask::files;
use xtask::process::Process;
use xtask::vm;
use xtask::workspace::Workspace;

/// Where its daemons listen unless another VM needs them, and where the cluster was made.
pub const LOCAL: &str = "127.0.0.1";

/// The REST API of ceph-mgr, without TLS.
pub const API: &str = "127.0.0.1:8080";

/// The user of the API, and its password.
pub const USER: (&str, &str) = ("csi", "password-of-tests");

/// The file system.
pub const FILE_SYSTEM: &str = "cephfs";

/// The group whose subvolumes the key of nodes is for.
pub const GROUP: &str = "csi";

/// The id of the cluster.
pub const CLUSTER: &str = "8b0b3a5e-0000-4000-8000-000000000001";

/// The pool of images.
pub const POOL: &str = "kubernetes";
/// The user who may map them.
pub const IMAGE_USER: &str = "node";

/// The daemons, in the order in which they start.
const DAEMONS: [(&str, &str); 4] = [("mon", "a"), ("mgr", "a"), ("osd", "0"), ("mds", "a")];

/// Where they keep what they know.
const STATE: &str = "var/lib/ceph";

/// Timeout until the API listens: some seconds on an idle machine.
const START: Duration = Duration::from_secs(120);

/// Moves the cluster to the address `$1`: only the monitor keeps its own. (Ceph's documentation, "Changing a Monitor's IP address".)
const MOVE: &str = r#"map=$(mktemp) &&
ceph-mon -i a --extract-monmap "$map" &&
monmaptool --rm a "$map" &&
monmaptool --addv a "[v2:$1:3300,v1:$1:6789]" "$map" &&
ceph-mon -i a --inject-monmap "$map" &&
sed -i "s/127\.0\.0\.1/$1/" /etc/ceph/ceph.conf"#;

/// Between two polls.
const LOOK: Duration = Duration::from_millis(100);

/// A running Ceph.
#[derive(Debug)]
pub struct Ceph {
    daemons: Vec<Process>,
    folder: PathBuf,
}

impl Ceph {
    /// The one of all tests of a program, started by the first of them at an address of the machine.
    pub fn shared(address: &'static str) -> Result<&'static Self, Failure> {
        static SHARED: Mutex<Option<&'static Ceph>> = Mutex::new(None);
        let mut shared = lock(&SHARED);
        if let Some(running) = *shared {
            return Ok(running);
        }
        let running = on_lasting_thread(move || Self::start(address))?;
        let running: &'static Self = Box::leak(Box::new(running));
        *shared = Some(running);
        Ok(running)
    }

    fn start(address: &str) -> Result<Self, Failure> {
        let made = vm::build_ceph(&Workspace::locate()?)?;
        let mut ceph = Self {
            daemons: Vec::new(),
            folder: files::temporary("wasmount-ceph-")?.keep(),
        };
        ceph.mount(&made)?;
        if address != LOCAL {
            ceph.run("sh", &["-c", MOVE, "move", address])?;
        }
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

    /// The key of the user `kubernetes`, who may use all volumes.
    pub fn key(&self) -> Result<String, Failure> {
        self.key_of("client.kubernetes")
    }

    /// The key of a user.
    pub fn key_of(&self, user: &str) -> Result<String, Failure> {
        let key = self.run("ceph", &["auth", "get-key", user])?;
        Ok(key.trim().to_owned())
    }

    /// The users that exist.
    pub fn users(&self) -> Result<Vec<String>, Failure> {
        let listed = self.run("ceph", &["auth", "ls"])?;
        let users = listed
            .lines()
            .filter(|line| !line.starts_with(char::is_whitespace));
        Ok(users.map(str::to_owned).collect())
    }

    /// Names of the objects in a namespace of the pool `data`, as a user sees them with this key.
    pub fn objects(&self, user: &str, key: &str, namespace: &str) -> Result<String, Failure> {
        let user = ["--id", user, "--key", key];
        let place = ["--pool", "data", "--namespace", namespace, "ls"];
        self.run("rados", &[&user[..], &place].concat())
    }

    /// Names of all subvolumes of the group, with those of which only snapshots are left.
    pub fn subvolumes(&self) -> Result<String, Failure> {
        self.run("ceph", &["fs", "subvolume", "ls", FILE_SYSTEM, GROUP])
    }

    /// The key of the user who may map images. The first call makes the pool and the user.
    pub fn image_key(&self) -> Result<String, Failure> {
        let rights = [
            "mon",
            "profile rbd",
            "osd",
            &format!("profile rbd pool={POOL}"),
        ];
        self.run("ceph", &["osd", "pool", "create", POOL])?;
        let enable = ["osd", "pool", "application", "enable", POOL, "rbd"];
        self.run("ceph", &enable)?;
        let user = format!("client.{IMAGE_USER}");
        let create = ["auth", "get-or-create-key", &user];
        let key = self.run("ceph", &[&create[..], &rights].concat())?;
        Ok(key.trim().to_owned())
    }

    /// The output of rbd(8) in the pool of images.
    pub fn rbd(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.run("rbd", &[&["--pool", POOL], arguments].concat())
    }

    /// A file with the content of an image.
    pub fn export(&self, image: &str) -> Result<PathBuf, Failure> {
        let name = format!("{image}.exported");
        self.rbd(&["export", "--no-progress", image, &format!("/{name}")])?;
        Ok(self.root().join(name))
    }

    /// The output of a program of the root file system.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new("chroot");
        command.arg(self.root()).arg(program).args(arguments);
        command::read(&mut command)
    }

    /// An overlay over what was made, with a copy of the cluster, whose disk is sparse.
    fn mount(&self, made: &Path) -> Result<(), Failure> {
        let [root, upper, work] = ["root", "upper", "work"].map(|it| self.folder.join(it));
        for directory in [&root, &upper, &work, &upper.join("var/lib")] {
            files::create_directory(directory)?;
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

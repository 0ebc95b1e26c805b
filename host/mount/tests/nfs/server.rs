//! The kernel's NFS server on loopback: exports a disk of its own, stops and starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Name of the exported directory that tests mount.
pub(crate) const SHARE: &str = "share";
/// Size of the exported disk, which is sparse: the smallest xfs is 300 MiB.
const DISK_BYTES: u64 = 400 << 20;
/// Seconds for which clients may reclaim what they had open, and for which their locks outlive them.
const LEASE: &str = "10";
/// Threads of the server.
const THREADS: &str = "4";

/// Where it is, for clients on the same kernel.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

/// There is one server in a kernel.
static ONE: Mutex<()> = Mutex::new(());

/// A running server. It exports the root of a disk as `/`.
pub(crate) struct Knfsd {
    folder: TempDir,
    mountd: Option<Child>,
    _one: MutexGuard<'static, ()>,
}

impl Knfsd {
    /// Starts it with an empty share for this machine.
    pub(crate) fn start() -> Self {
        Self::start_for(LOOPBACK)
    }

    /// Starts it with an empty share for an address or a network.
    pub(crate) fn start_for(clients: &str) -> Self {
        Self::start_with(clients, "sys")
    }

    /// The same, by a flavour of security (exports(5), `sec`). Panics with one line where the kernel or its tools are missing.
    pub(crate) fn start_with(clients: &str, security: &str) -> Self {
        assert!(
            may_serve(),
            "this kernel serves no NFS, or rpc.nfsd and mkfs.xfs are missing: run this test in the kernel lab"
        );
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("disk");
        fs::File::create(&image)
            .unwrap()
            .set_len(DISK_BYTES)
            .unwrap();
        let disk = folder.path().join("export");
        fs::create_dir(&disk).unwrap();
        run("mkfs.xfs", &["-q", text(&image)]);
        run("mount", &["-o", "loop", text(&image), text(&disk)]);
        fs::create_dir(disk.join(SHARE)).unwrap();
        for (kind, at) in [("nfsd", "/proc/fs/nfsd"), ("rpc_pipefs", "/run/rpc_pipefs")] {
            fs::create_dir_all(at).unwrap();
            // It may be mounted already.
            let _ = Command::new("mount").args(["-t", kind, kind, at]).output();
        }
        // Remembers clients over a restart, so that the server need not wait for all of them. Only one may run.
        fs::create_dir_all("/var/lib/nfs/nfsdcld").unwrap();
        let _ = Command::new("nfsdcld")
            .args(["-p", "/run/rpc_pipefs"])
            .output();
        let client = format!("{clients}:{}", disk.display());
        let options = format!("rw,sync,no_root_squash,no_subtree_check,fsid=0,sec={security}");
        run("exportfs", &["-o", &options, &client]);
        let mut mountd = Command::new("rpc.mountd");
        mountd.args(["--foreground", "--no-nfs-version", "3", "--no-udp"]);
        let mountd = mountd.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self {
            folder,
            mountd: Some(mountd.unwrap()),
            _one: one,
        };
        server.resume();
        // No client has anything to reclaim yet. Some servers know that themselves, and are busy here.
        let _ = fs::write("/proc/fs/nfsd/v4_end_grace", "Y");
        server
    }

    /// The exported disk, as the server sees it.
    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.path().join("export")
    }

    /// The share, as the server sees it.
    pub(crate) fn share(&self) -> PathBuf {
        self.disk().join(SHARE)
    }

    /// What clients mount.
    pub(crate) fn source(path: &str) -> String {
        format!("{LOOPBACK}:/{path}")
    }

    /// Ends its threads and connections. Clients wait from now on.
    pub(crate) fn pause(&self) {
        run("rpc.nfsd", &["0"]);
    }

    /// Starts it, or goes on after [`Knfsd::pause`].
    pub(crate) fn resume(&self) {
        let times = ["--lease-time", LEASE, "--grace-time", LEASE];
        let versions = ["--no-nfs-version", "3", "--no-udp"];
        run("rpc.nfsd", &[&versions[..], &times, &[THREADS]].concat());
    }
}

impl Drop for Knfsd {
    fn drop(&mut self) {
        let _ = Command::new("rpc.nfsd").arg("0").output();
        let _ = Command::new("exportfs").arg("-ua").output();
        if let Some(mut mountd) = self.mountd.take() {
            let _ = mountd.kill();
            let _ = mountd.wait();
        }
        let _ = Command::new("umount")
            .args(["-l", text(&self.disk())])
            .output();
    }
}

/// Repeats an attempt until it succeeds. A restarted server answers some requests only after its grace period.
pub(crate) async fn eventually<T, E: std::fmt::Display>(
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    const INTERVAL: Duration = Duration::from_millis(200);
    const ATTEMPTS: usize = 300;
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(INTERVAL).await;
    }
    panic!("it never succeeded: {}", last.unwrap());
}

/// Runs a program that must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("`{program}` cannot be run: {error}"));
    assert!(
        output.status.success(),
        "`{program}` {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn may_serve() -> bool {
    // They are modules of some kernels.
    for module in ["nfsd", "nfsv4", "xfs", "loop"] {
        let _ = Command::new("modprobe").arg(module).output();
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    let knows = |name: &str| known.split_whitespace().any(|it| it == name);
    let has = |tool: &str| Command::new(tool).arg("-V").output().is_ok();
    knows("nfsd") && knows("nfs4") && has("rpc.nfsd") && has("rpc.mountd") && has("mkfs.xfs")
}

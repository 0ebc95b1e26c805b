//! The process that fetches for a host, as the kernel sees it while a registry keeps it waiting: nobody, bounded, and the only one that holds the
//! connection.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use wasmount_tests::child::{self, Child, FETCHER};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;

/// How long a busy machine may take to come so far.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// Where a line of proc_net_tcp(5) has the remote address and the inode of a socket.
const REMOTE: usize = 2;
const INODE: usize = 9;

/// A host that waits for a registry, and the connection that it waits on.
struct Waiting {
    host: Host,
    _listener: TcpListener,
    connection: TcpStream,
    _folder: tempfile::TempDir,
}

impl Waiting {
    fn start() -> Self {
        needs_root();
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = Host::start(HostOptions {
            backends: vec![document(folder.path(), port)],
            ..HostOptions::default()
        })
        .unwrap();
        let connection = accepted(&listener, &host);
        Self {
            host,
            _listener: listener,
            connection,
            _folder: folder,
        }
    }

    /// It has connected, so it is confined already.
    fn fetcher(&self) -> Child {
        let children = Child::all_of(self.host.id(), FETCHER).unwrap();
        let [one] = children.as_slice() else {
            panic!("{children:?}: {}", self.host.log());
        };
        one.clone()
    }

    /// What a descriptor leads to that is the other end of the connection.
    fn socket(&self, fetcher: &Child) -> String {
        let port = self.connection.local_addr().unwrap().port();
        let ours = format!("0100007F:{port:04X}");
        let table = fs::read_to_string(format!("/proc/{}/net/tcp", fetcher.id())).unwrap();
        let from = self.connection.peer_addr().unwrap().port();
        let theirs = format!("0100007F:{from:04X}");
        let mut rows = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row[REMOTE] == ours && row[REMOTE - 1] == theirs);
        format!(
            "socket:[{}]",
            row.unwrap_or_else(|| panic!("{table}"))[INODE]
        )
    }
}

fn document(folder: &Path, port: u16) -> PathBuf {
    let path = folder.join("backend.yaml");
    let text = format!(
        "apiVersion: wasmount.io/v1alpha1\nkind: StorageBackend\nmetadata: {{ name: slow }}\nspec:\n  driverName: slow.example.com\n  plugin:\n    \
         reference: oci://127.0.0.1:{port}/acme/directory:stable\n    registry: {{ plainHttp: true }}\n"
    );
    fs::write(&path, text).unwrap();
    path
}

fn accepted(listener: &TcpListener, host: &Host) -> TcpStream {
    let started = Instant::now();
    loop {
        if let Ok((connection, _)) = listener.accept() {
            return connection;
        }
        assert!(started.elapsed() < PATIENCE, "{}", host.log());
        sleep(LOOK);
    }
}

#[test]
fn privileged_who_fetches_for_a_host_is_nobody_and_has_limits() {
    let waiting = Waiting::start();
    let fetcher = waiting.fetcher();
    let status = fetcher.status().unwrap();
    for (key, value) in [
        ("Uid", "65534 65534 65534 65534"),
        ("Gid", "65534 65534 65534 65534"),
        ("Groups", ""),
        ("NoNewPrivs", "1"),
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapInh", "0000000000000000"),
    ] {
        assert_eq!(status[key], value, "{key}");
    }
    let limits = fetcher.limits().unwrap();
    for (name, soft) in [
        ("Max data size", "536870912"),
        ("Max address space", "2684354560"),
        ("Max cpu time", "60"),
        ("Max open files", "64"),
        ("Max core file size", "0"),
        ("Max file size", "0"),
        ("Max locked memory", "0"),
    ] {
        assert_eq!(limits[name], soft, "{name}");
    }
    let variables = [
        "MALLOC_ARENA_MAX",
        "RAYON_NUM_THREADS",
        "TOKIO_WORKER_THREADS",
    ];
    assert_eq!(fetcher.variables().unwrap(), variables);
    assert_eq!(fetcher.nice(), Some(3));
}

#[test]
fn privileged_only_the_fetching_child_connects_to_a_registry() {
    let waiting = Waiting::start();
    let fetcher = waiting.fetcher();
    let socket = waiting.socket(&fetcher);
    let held = fetcher.descriptors().unwrap();
    for stream in ["0", "1", "2"] {
        assert!(held[stream].starts_with("pipe:"), "{held:?}");
    }
    // It has nothing of the host's files, and beside the connection only what a runtime is made of.
    let beyond = held
        .iter()
        .filter(|(number, _)| number.len() > 1 || number.as_str() > "2");
    let kinds = ["anon_inode:", "socket:"];
    assert!(
        beyond
            .clone()
            .all(|(_, to)| kinds.iter().any(|kind| to.starts_with(kind))),
        "{held:?}"
    );
    assert!(held.values().any(|to| *to == socket), "{socket}: {held:?}");
    let of_host = child::descriptors(&waiting.host.id().to_string()).unwrap();
    assert!(!of_host.is_empty());
    assert!(!of_host.values().any(|to| *to == socket), "{of_host:?}");
}

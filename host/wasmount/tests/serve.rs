//! A host as other processes see it: sockets, health checks, a second host, signals. A backend without its plugin is enough for all of it,
//! and shows that no plugin is needed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it fails"
)]

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use wasmount_csi::wire::csi::v1::identity_client::IdentityClient;
use wasmount_csi::wire::csi::v1::{GetPluginInfoRequest, ProbeRequest};

/// Timeout of every wait: generous, since the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
const DRIVER: &str = "absent.wasmount.io";

/// A running host; killed when the test ends early.
struct Host {
    child: Child,
    lines: Receiver<String>,
    /// Lines that were read.
    seen: RefCell<Vec<String>>,
    health: SocketAddr,
    socket: PathBuf,
}

impl Host {
    /// Starts it on the data directory of `folder`; everything else is below `folder/name`.
    fn start(folder: &Path, name: &str) -> Self {
        let own = folder.join(name);
        let (run, sockets) = (own.join("run"), own.join("s"));
        std::fs::create_dir_all(&own).unwrap();
        let document = folder.join("backend.yaml");
        let text = format!(
            "apiVersion: wasmount.io/v1alpha1\nkind: StorageBackend\nmetadata: {{ name: absent }}\nspec:\n  driverName: {DRIVER}\n  plugin: {{ path: absent.wasm }}\n"
        );
        std::fs::write(&document, text).unwrap();
        // The port was free a moment ago; nothing else in this test takes it meanwhile.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let health = free.local_addr().unwrap();
        drop(free);
        let mut child = Command::new(env!("CARGO_BIN_EXE_wasmount"))
            .args(["serve", "--role", "controller", "--node-id", "here"])
            .arg("--backend")
            .arg(&document)
            .arg("--data-dir")
            .arg(folder.join("data"))
            .arg("--run-dir")
            .arg(run)
            .arg("--socket-dir")
            .arg(&sockets)
            .args(["--listen-health", &health.to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            lines,
            seen: RefCell::default(),
            health,
            socket: sockets.join(DRIVER).join("csi.sock"),
        }
    }

    /// Waits for a log line, which may also have come before one that was waited for.
    fn says(&self, part: &str) -> String {
        let mut seen = self.seen.borrow_mut();
        if let Some(line) = seen.iter().find(|line| line.contains(part)) {
            return line.clone();
        }
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            seen.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
        panic!("never said {part:?}, but:\n{}", seen.join("\n"))
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

    /// The answer of a health check once it contains this text: the log may be a moment ahead of the answer.
    fn get_once(&self, path: &str, part: &str) -> (String, String) {
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            let answer = self.get(path);
            if answer.1.contains(part) {
                return answer;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{path} never said {part:?}, but {:?}", self.get(path))
    }

    /// Sends SIGTERM; returns the exit code.
    fn stop(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the host did not stop")
    }

    async fn client(&self) -> IdentityClient<tonic::transport::Channel> {
        let uri = format!("unix://{}", self.socket.display());
        let endpoint = tonic::transport::Endpoint::from_shared(uri).unwrap();
        IdentityClient::new(endpoint.connect().await.unwrap())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Fails if it has ended already, as it should have.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_its_plugin_answers_and_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::start(folder.path(), "one");
    host.says("host started");
    let mut client = host.client().await;
    let info = client
        .get_plugin_info(GetPluginInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.get_ref().name, DRIVER);
    let line = host.says("version rejected");
    assert!(line.contains("absent.wasm cannot be read"), "{line}");
    assert!(line.contains("ERROR"), "{line}");
    let probe = client.probe(ProbeRequest {}).await.unwrap();
    assert_eq!(probe.get_ref().ready, Some(true));
    assert_eq!(
        host.get("/healthz"),
        ("200".to_owned(), format!("{DRIVER}: ok\n"))
    );
    let (status, body) = host.get_once("/readyz/absent.wasmount.io", "cannot be read");
    assert_eq!(status, "503");
    let expected = format!(
        "{DRIVER}: the plugin {} cannot be read: No such file or directory (os error 2); build it, let this user read it, or correct the path: `plugin.path` of a document, or what a command names\n",
        folder.path().join("absent.wasm").display()
    );
    assert_eq!(body, expected);
    // A roll-out stops here.
    assert_eq!(host.get("/readyz"), ("503".to_owned(), expected));
    let loaded = format!("wasmount_plugin_loaded{{driver=\"{DRIVER}\"}} 0\n");
    let metrics = host.get("/metrics").1;
    for name in [
        loaded.as_str(),
        "wasmount_csi_call_duration_seconds_count{",
        "wasmount_csi_calls_in_flight{",
        "wasmount_plugin_faults_total{",
    ] {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
    assert_eq!(host.get("/readyz/nobody").0, "404");
    drop(client);

    assert_eq!(host.stop(), Some(0));
    assert!(!host.socket.exists(), "the socket is left behind");
}

#[test]
fn a_second_host_on_the_same_data_waits_says_so_and_then_serves() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Host::start(folder.path(), "one");
    first.says("host started");
    let mut second = Host::start(folder.path(), "two");
    let line = second.says("waiting for the other host");
    assert!(line.contains(&folder.path().join("data").display().to_string()));
    assert_eq!(second.get("/healthz").0, "200");
    assert!(
        second
            .get("/readyz")
            .1
            .contains("waiting for the other host")
    );
    assert!(!second.socket.exists());

    assert_eq!(first.stop(), Some(0));
    second.says("host started");
    assert!(UnixStream::connect(&second.socket).is_ok());
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn a_host_that_waits_stops_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let first = Host::start(folder.path(), "one");
    first.says("host started");
    let mut second = Host::start(folder.path(), "two");
    second.says("waiting for the other host");
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn a_socket_that_a_killed_host_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Host::start(folder.path(), "one");
    first.says("host started");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let socket = first.socket.clone();
    assert!(socket.exists() && UnixStream::connect(&socket).is_err());
    let mut again = Host::start(folder.path(), "one");
    again.says("host started");
    assert!(UnixStream::connect(&socket).is_ok());
    assert_eq!(again.stop(), Some(0));
}

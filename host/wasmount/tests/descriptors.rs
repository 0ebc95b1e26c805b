//! A host with a low limit of open files, and a client of one driver that opens all the connections it can get: the other driver is served.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it fails"
)]

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use wasmount_csi::wire::csi::v1::GetPluginInfoRequest;
use wasmount_csi::wire::csi::v1::identity_client::IdentityClient;

/// Timeout of every wait: generous, since the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(30);
/// The host's soft limit, and a hard limit that is not much higher.
const SOFT_LIMIT: usize = 128;
const HARD_LIMIT: usize = 256;

struct Host {
    child: Child,
    lines: Receiver<String>,
    folder: tempfile::TempDir,
}

impl Host {
    fn start(drivers: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // Through the shell, since a limit is set between fork and exec.
        let limits =
            format!("ulimit -Sn {SOFT_LIMIT}; ulimit -Hn {HARD_LIMIT}; exec \"$0\" \"$@\"");
        let mut command = Command::new("bash");
        command.args(["-c", &limits, env!("CARGO_BIN_EXE_wasmount"), "serve"]);
        command.args(["--role", "controller", "--listen-health", "off"]);
        for name in drivers {
            let text = format!(
                "apiVersion: wasmount.io/v1alpha1\nkind: StorageBackend\nmetadata: {{ name: {name} }}\nspec:\n  driverName: {name}.wasmount.io\n  plugin: {{ path: absent.wasm }}\n"
            );
            std::fs::write(path(name), text).unwrap();
            command.arg("--backend").arg(path(name));
        }
        for (flag, name) in [
            ("--data-dir", "data"),
            ("--run-dir", "run"),
            ("--socket-dir", "s"),
        ] {
            command.arg(flag).arg(path(name));
        }
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                drop(sender.send(line));
            }
        });
        Self {
            child,
            lines,
            folder,
        }
    }

    /// All log lines up to and including one with this text.
    fn says(&self, part: &str) -> Vec<String> {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            seen.push(line);
            if seen.iter().any(|line| line.contains(part)) {
                return seen;
            }
        }
        panic!("never said {part:?}, but:\n{}", seen.join("\n"))
    }

    fn socket(&self, driver: &str) -> PathBuf {
        let directory = self.folder.path().join("s");
        directory.join(format!("{driver}.wasmount.io/csi.sock"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_exhaust_descriptors_of_another_driver() {
    let host = Host::start(&["one", "two"]);
    let said = host.says("host started");
    let warned = format!("limit={HARD_LIMIT}");
    assert!(said.iter().any(|line| line.contains(&warned)), "{said:#?}");

    let socket = host.socket("one");
    let idle: Vec<_> = (0..2 * HARD_LIMIT)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    let said = host.says("new clients wait");
    assert!(!said.iter().any(|line| line.contains("cannot be accepted")));

    let uri = format!("unix://{}", host.socket("two").display());
    let endpoint = tonic::transport::Endpoint::from_shared(uri).unwrap();
    for _ in 0..20 {
        let mut client = IdentityClient::new(endpoint.connect().await.unwrap());
        let info = client.get_plugin_info(GetPluginInfoRequest {});
        let info = tokio::time::timeout(PATIENCE, info).await.unwrap().unwrap();
        assert_eq!(info.get_ref().name, "two.wasmount.io");
    }
    // Logged once, however many clients wait.
    let rest: Vec<_> = host.lines.try_iter().collect();
    let again = |line: &&String| line.contains("new clients wait") || line.contains("accepted");
    assert_eq!(rest.iter().find(again), None);
    drop(idle);
}

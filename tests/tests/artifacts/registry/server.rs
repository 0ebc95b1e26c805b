//! A registry of its own for each test: Debian's `docker-registry` on loopback, with TLS and a password, its storage in a temporary directory.

use crate::registry::certificates::Certificates;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xtask::workspace::Workspace;

/// `hunter2`, as htpasswd's bcrypt with the least cost.
const PASSWORDS: &str = "ann:$2b$04$DZQg7FI6yuFW1T7/M9k7vecpY759h9ti1Gr7bzxGR00ow/tRa7s16\n";
/// The same as docker's config.json has it: base64 of `ann:hunter2`.
const AUTH: &str = "YW5uOmh1bnRlcjI=";

/// Ports that are tried.
const PORTS: usize = 5;
/// Until it must listen.
const START: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// Running, until this is dropped.
pub(crate) struct Server {
    process: Running,
    folder: TempDir,
    port: u16,
    pub(crate) certificates: Certificates,
}

/// Its process.
struct Running(Child);

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::make(folder.path());
        fs::write(folder.path().join("passwords"), PASSWORDS).unwrap();
        let (process, port) = (0..PORTS)
            .find_map(|_| listening(folder.path(), &certificates))
            .unwrap_or_else(|| panic!("no registry: {}", log_in(folder.path())));
        let server = Self {
            process,
            folder,
            port,
            certificates,
        };
        server.config();
        server
    }

    /// Answers nobody any more; what lies beside it stays.
    pub(crate) fn end(&mut self) {
        self.process.end();
    }

    /// How often something was asked for, refused or not, by its path behind `/v2/`.
    pub(crate) fn asked(&self, path: &str) -> usize {
        let request = format!("\"GET /v2/{path} HTTP");
        log_in(self.path()).matches(&request).count()
    }

    /// Takes the bytes of a blob away behind its back, as a disk or a careless clean-up does; gives the digits of its digest. The blob is the
    /// only one with these words in it.
    pub(crate) fn lose_blob(&self, words: &str) -> String {
        let blobs = self.path().join("storage/docker/registry/v2/blobs/sha256");
        let folders = fs::read_dir(blobs).unwrap();
        let folders = folders.flat_map(|two| fs::read_dir(two.unwrap().path()).unwrap());
        let folders = folders.map(|folder| folder.unwrap().path());
        let has_words = |folder: &PathBuf| {
            let bytes = fs::read(folder.join("data")).unwrap();
            String::from_utf8_lossy(&bytes).contains(words)
        };
        let found: Vec<_> = folders.filter(has_words).collect();
        assert_eq!(found.len(), 1, "{words}: {found:?}");
        fs::remove_file(found[0].join("data")).unwrap();
        found[0].file_name().unwrap().to_str().unwrap().to_owned()
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// By a name, so that it has to be found.
    pub(crate) fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    pub(crate) fn reference(&self, rest: &str) -> String {
        format!("oci://{}/{rest}", self.host())
    }

    /// docker's config.json with the password. It is written once: a host may watch it.
    pub(crate) fn config(&self) -> PathBuf {
        let path = self.path().join("config.json");
        if !path.exists() {
            let config = format!(r#"{{"auths":{{"{}":{{"auth":"{AUTH}"}}}}}}"#, self.host());
            fs::write(&path, config).unwrap();
        }
        path
    }

    /// A command of the program, with what reaches this registry.
    pub(crate) fn wasmount(&self, words: &[&str]) -> Command {
        let mut command = wasmount(words);
        command
            .arg("--registry-config")
            .arg(self.config())
            .arg("--ca-file")
            .arg(&self.certificates.authority);
        command
    }

    /// The same of skopeo.
    pub(crate) fn skopeo(&self, words: &[&str]) -> Command {
        // It wants a directory of certificates whose names end so.
        let trusted = self.path().join("trusted");
        fs::create_dir_all(&trusted).unwrap();
        fs::copy(&self.certificates.authority, trusted.join("ca.crt")).unwrap();
        let mut command = Command::new("skopeo");
        command
            .args([
                "--insecure-policy",
                "copy",
                "--preserve-digests",
                "--authfile",
            ])
            .arg(self.config());
        for side in ["--src-cert-dir", "--dest-cert-dir"] {
            command.arg(side).arg(&trusted);
        }
        command.args(words);
        command
    }
}

impl Running {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The program, with nothing of the tester's own.
pub(crate) fn wasmount(words: &[&str]) -> Command {
    let workspace = Workspace::locate().unwrap();
    let mut command = Command::new(workspace.host_program());
    command.env_clear().args(words).stdin(Stdio::null());
    command
}

/// What it said, once it has ended as it should.
pub(crate) fn good(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    assert_eq!(errors, "", "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Why it failed.
pub(crate) fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{command:?}: {errors}");
    assert!(
        !errors.contains("hunter2") && !errors.contains(AUTH),
        "{errors}"
    );
    errors
}

/// A real component.
pub(crate) fn component() -> PathBuf {
    Workspace::locate().unwrap().component("directory")
}

/// The path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// On a port that was free; none if another program was faster to take it.
fn listening(folder: &Path, certificates: &Certificates) -> Option<(Running, u16)> {
    let port = free_port();
    let document = format!(
        "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {0}/storage}}, delete: {{enabled: true}}}}\n\
         http:\n  addr: 127.0.0.1:{port}\n  tls: {{certificate: {1}, key: {2}}}\n\
         auth: {{htpasswd: {{realm: test, path: {0}/passwords}}}}\n",
        folder.display(),
        certificates.certificate.display(),
        certificates.key.display(),
    );
    let config = folder.join("registry.yml");
    fs::write(&config, document).unwrap();
    let log = fs::File::create(folder.join("log")).unwrap();
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "docker-registry", "serve"])
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let start = Instant::now();
    while start.elapsed() < START {
        // It may have ended because another listens there.
        let answers = TcpStream::connect(("127.0.0.1", port)).is_ok();
        if running.0.try_wait().unwrap().is_some() {
            return None;
        }
        if answers {
            return Some((running, port));
        }
        sleep(LOOK);
    }
    panic!("no registry: {}", log_in(folder));
}

fn log_in(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

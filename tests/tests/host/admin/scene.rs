//! A host with one backend of its own, whose files a test may change, and the commands of its administrator.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wasmount_tests::builds::{build_of, put};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// The driver.
pub(crate) const DRIVER: &str = "admin.wasmount.io";

/// How long a change may take to be seen. Generous: a component is compiled, and other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// A host and what it reads.
pub(crate) struct Scene {
    pub(crate) host: Host,
    pub(crate) document: PathBuf,
    pub(crate) component: PathBuf,
    pub(crate) folder: TempDir,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) error: String,
}

impl Scene {
    /// Started, and its plugin serves.
    pub(crate) fn start() -> Self {
        Self::start_with(HostOptions::default())
    }

    /// With these options; the backends are this scene's.
    pub(crate) fn start_with(options: HostOptions) -> Self {
        Self::serving("directory", options)
    }

    /// Of another plugin.
    pub(crate) fn serving(plugin: &str, options: HostOptions) -> Self {
        needs_root();
        let folder = tempfile::tempdir().unwrap();
        let (document, component) = documents::directory_of_its_own(folder.path(), DRIVER).unwrap();
        put(&build_of(plugin, "one").unwrap(), &component).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document.clone()],
            ..options
        });
        let scene = Self {
            host: host.unwrap(),
            document,
            component,
            folder,
        };
        scene.until("it serves", |driver| driver["phase"] == "serving");
        scene
    }

    /// Runs a command against this host.
    pub(crate) fn wasmount(&self, words: &[&str]) -> Said {
        said(self.command(words).output().unwrap())
    }

    /// The same, not started yet.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(Workspace::locate().unwrap().host_program());
        command.args(words).arg("--data-dir").arg(self.host.data());
        command
    }

    /// The same, which must succeed.
    pub(crate) fn done(&self, words: &[&str]) -> String {
        let said = self.wasmount(words);
        assert_eq!(
            said.code,
            Some(0),
            "{words:?}: {said:?}\n{}",
            self.host.log()
        );
        said.output
    }

    /// The same, which must fail.
    pub(crate) fn refused(&self, words: &[&str]) -> String {
        let said = self.wasmount(words);
        assert_eq!(said.code, Some(1), "{words:?}: {said:?}");
        said.error
    }

    /// What `status --json` says of the driver; nothing while the host starts.
    pub(crate) fn status(&self) -> Value {
        let said = self.wasmount(&["status", "--json"]);
        if said.code != Some(0) {
            return Value::Null;
        }
        let status: Value = serde_json::from_str(&said.output).unwrap();
        let drivers = status["drivers"].as_array().unwrap();
        let ours = drivers.iter().find(|it| it["driver"] == DRIVER);
        ours.cloned().unwrap_or(Value::Null)
    }

    /// Waits until its status is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(
                Instant::now() < end,
                "never: {what}; last: {status:#}\n{}",
                self.host.log()
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until a version of this number serves; its status.
    pub(crate) fn serves(&self, number: u64) -> Value {
        let is_it = move |driver: &Value| driver["version"]["number"] == number;
        self.until(&format!("version {number} serves"), is_it)
    }

    /// Puts another build of the plugin where the document names it.
    pub(crate) fn replace(&self, mark: &str) {
        put(&build_of("directory", mark).unwrap(), &self.component).unwrap();
    }

    /// Another build, beside.
    pub(crate) fn build(&self, mark: &str) -> PathBuf {
        let path = self.folder.path().join(format!("{mark}.wasm"));
        fs::write(&path, build_of("directory", mark).unwrap()).unwrap();
        path
    }

    /// The digest of a file, as a status shows it.
    pub(crate) fn digest(&self, file: &Path) -> String {
        let summed = Command::new("sha256sum").arg(file).output().unwrap();
        let line = String::from_utf8(summed.stdout).unwrap();
        format!("sha256:{}", line.split_whitespace().next().unwrap())
    }

    /// Rewrites the document.
    pub(crate) fn rewrite(&self, change: impl FnOnce(String) -> String) {
        self.rewrite_with(&change(fs::read_to_string(&self.document).unwrap()));
    }

    /// Writes it, whether or not there is one.
    pub(crate) fn rewrite_with(&self, text: &str) {
        let aside = self.folder.path().join("aside");
        fs::write(&aside, text).unwrap();
        fs::rename(&aside, &self.document).unwrap();
    }

    pub(crate) async fn orchestrator(&self) -> Orchestrator {
        self.host.orchestrator().await.unwrap()
    }
}

/// As text.
pub(crate) fn said(output: Output) -> Said {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code(),
        output: text(output.stdout),
        error: text(output.stderr),
    }
}

//! The program as a person runs it, in a directory of temporary files that it must leave empty.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use wasmount_tests::compiled::CommandCache;
use xtask::workspace::Workspace;

/// Where one test works.
pub(crate) struct Bench {
    folder: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder }
    }

    /// What lies in the directory of temporary files.
    pub(crate) fn temporary(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("tmp")).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and names it.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A document for a component, with more lines of its `spec`.
    pub(crate) fn document(&self, component: &Path, more: &str) -> PathBuf {
        let text = format!(
            "apiVersion: wasmount.io/v1alpha1\n\
             kind: StorageBackend\n\
             metadata: {{ name: looked-into }}\n\
             spec:\n  driverName: looked-into.wasmount.io\n  plugin: {{ path: {component:?} }}\n{more}"
        );
        self.file("backend.yaml", text)
    }

    /// Runs it. Nothing temporary is left, whatever came of it.
    pub(crate) fn run(&self, words: &[&str]) -> Told {
        self.run_with(words, "")
    }

    /// The same with something on its standard input.
    pub(crate) fn run_with(&self, words: &[&str], input: &str) -> Told {
        let components = words.iter().map(Path::new);
        let components = components.filter(|it| it.extension().is_some_and(|it| it == "wasm"));
        let compiled = CommandCache::of(&components.collect::<Vec<_>>()).unwrap();
        let mut command = self.command(words);
        command.env("WASMOUNT_CACHE", compiled.path());
        let told = self.end(command, input);
        let left: Vec<_> = fs::read_dir(self.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{words:?} leaves {left:?}");
        told
    }

    /// The same with no more memory of its own than this. What is only reserved does not count.
    pub(crate) fn run_within(&self, bytes: u64, words: &[&str]) -> Told {
        let plain = self.command(words);
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--data={bytes}"))
            .arg(plain.get_program())
            .args(plain.get_args())
            .env("TMPDIR", self.path("tmp"));
        self.end(command, "")
    }

    /// The same, not started: to be killed.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let program = Workspace::locate().unwrap().host_program();
        let mut command = Command::new(program);
        command.args(words).env("TMPDIR", self.path("tmp"));
        command
    }

    fn end(&self, mut command: Command, input: &str) -> Told {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Who does not read it closes it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Told {
            code: status.code(),
            out: text(stdout),
            err: text(stderr),
        }
    }
}

impl Told {
    /// Its one JSON object.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let read = serde_json::from_str(&self.out);
        read.unwrap_or_else(|error| panic_with(self, &error.to_string()))
    }

    /// It went well.
    #[track_caller]
    pub(crate) fn well(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self
    }
}

#[track_caller]
fn panic_with(told: &Told, error: &str) -> Value {
    assert!(error.is_empty(), "{error}: {told:?}");
    Value::Null
}

/// A plugin of this repository, as built.
pub(crate) fn component(plugin: &str) -> PathBuf {
    Workspace::locate().unwrap().component(plugin)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

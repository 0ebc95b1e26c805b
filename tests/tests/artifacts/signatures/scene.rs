//! A folder with a component and some keys, and the two programs that work in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use wasmount_tests::keys::key_pair;
use xtask::command;
use xtask::tools::COSIGN;
use xtask::workspace::Workspace;

/// Opens every key that a scene makes.
pub(crate) const PASSWORD: &str = "correct horse";
/// The variables that a password may be in.
const VARIABLES: [&str; 2] = ["WASMOUNT_KEY_PASSWORD", "COSIGN_PASSWORD"];
/// The component of a scene. Its content does not matter here.
pub(crate) const COMPONENT: &[u8] = b"\0asm\r\0\x01\0";
/// What it is called.
pub(crate) const FILE: &str = "nas.wasm";

/// A folder.
pub(crate) struct Scene {
    folder: TempDir,
    /// Of the keys in it.
    password: &'static str,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Scene {
    /// With a component.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), COMPONENT).unwrap();
        Self {
            folder,
            password: PASSWORD,
        }
    }

    /// With another password from now on.
    pub(crate) fn with_password(mut self, password: &'static str) -> Self {
        self.password = password;
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Makes NAME.key and NAME.pub.
    pub(crate) fn key_pair(&self, name: &str) {
        key_pair(self.folder.path(), name, self.password).unwrap();
    }

    /// The program under test, in the folder.
    pub(crate) fn wasmount(&self, words: &[&str]) -> Ended {
        let program = Workspace::locate().unwrap().host_program();
        self.run(&program, words, VARIABLES[0])
    }

    /// cosign's own code, in the folder.
    pub(crate) fn cosign(&self, words: &[&str]) -> Ended {
        let program = COSIGN.build(&Workspace::locate().unwrap()).unwrap();
        self.run(&program, words, VARIABLES[1])
    }

    fn run(&self, program: &Path, words: &[&str], variable: &str) -> Ended {
        let mut command = Command::new(program);
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.env(variable, self.password);
        let command = command.current_dir(self.folder.path()).args(words);
        Ended::from(command::try_read(command).unwrap())
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            output: text(&output.stdout),
            errors: text(&output.stderr),
        }
    }
}

impl Ended {
    /// What it printed; it ended well.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.errors);
        self.output
    }

    /// What it said; it printed nothing, and did not do what was asked.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert_eq!(
            (self.code, self.output.as_str()),
            (Some(1), ""),
            "{}",
            self.errors
        );
        self.errors
    }
}

//! The objects of the tests' acts, and the child that does one act.

use super::held::Held;
use crate::Task;
use crate::run::run_program;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use tempfile::TempDir;

/// This test's name for the test runner.
pub(super) const NAME: &str =
    "landlock_rules::tests::privileged_forbidden_system_calls_fail_in_the_sandbox";
/// The prefix of the line with the result of an act.
pub(super) const TOLD: &str = "ACT ";
/// The user without any files.
pub(super) const NOBODY: u32 = 65534;

/// The result of an act: its output, or its error.
pub(super) type Told = Result<String, i32>;

/// The objects of the acts: any user can reach all of them, so that only the sandbox is in the way.
pub(super) struct Scene {
    folder: TempDir,
    pub(super) listener: TcpListener,
    pub(super) abstract_name: String,
    _abstract: UnixListener,
    _named: UnixListener,
    pub(super) neighbour: Child,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.neighbour.kill();
        let _ = self.neighbour.wait();
    }
}

impl Scene {
    pub(super) fn new() -> Self {
        assert!(
            geteuid().is_root(),
            "this test becomes nobody: run it as root"
        );
        let folder = tempfile::tempdir().unwrap();
        let everybody = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        everybody(folder.path(), 0o777);
        for name in ["inside", "outside"] {
            let place = folder.path().join(name);
            fs::create_dir(&place).unwrap();
            everybody(&place, 0o777);
            fs::write(place.join("file"), name).unwrap();
            everybody(&place.join("file"), 0o644);
        }
        let named = folder.path().join("inside/socket");
        let listens = UnixListener::bind(&named).unwrap();
        everybody(&named, 0o777);
        // A name for each scene: the tests of one process have one scene each.
        let abstract_name = folder.path().display().to_string();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        // Of the same user as a child: the system does not otherwise separate the two.
        let user = NOBODY.to_string();
        let neighbour = Command::new("setpriv")
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .args(["--pdeathsig", "KILL", "sleep", "600"])
            .spawn()
            .unwrap();
        Self {
            folder,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            _named: listens,
            neighbour,
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn inside(&self) -> PathBuf {
        self.path("inside")
    }

    pub(super) async fn told(&self, held: Held, act: &str) -> Told {
        // What an earlier act created would make the next one fail.
        let _ = fs::remove_file(self.path("outside/made"));
        let _ = fs::remove_dir(self.path("outside/folder"));
        let taken = self.path("outside/taken");
        fs::write(&taken, "").unwrap();
        chown(&taken, Some(NOBODY), Some(NOBODY)).unwrap();
        let inside = self.inside();
        let task = Task {
            subcommand: "--exact",
            arguments: [NAME, "--nocapture", &held.word(), inside.to_str().unwrap()]
                .map(Into::into)
                .to_vec(),
            bounds: held.bounds(&inside),
        };
        let this = std::env::current_exe().unwrap();
        let answer = run_program(&this, &task, act.as_bytes().to_vec()).await;
        let answer = String::from_utf8(answer.unwrap()).unwrap();
        let line = answer.lines().find_map(|line| line.split_once(TOLD));
        let (_, end) = line.unwrap_or_else(|| panic!("{held:?} {act}: {answer}"));
        match end.split_once(' ') {
            Some(("error", number)) => Err(number.trim().parse().unwrap()),
            _ => Ok(end.replace('|', "\n")),
        }
    }
}

//! The API server of the tests of this program. It knows our kinds and those of external-snapshotter.

use kube::Client;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use wasmount_tests::control_plane::ControlPlane;
use xtask::cluster::access::User;
use xtask::cluster::programs::Programs;
use xtask::place::{self, Place};
use xtask::test::SHARED_CONTROL_PLANE;
use xtask::workspace::Workspace;

/// Longest wait for what happens by itself: a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// etcd and an API server, in a place that goes with them.
pub(crate) struct Server {
    // Ended before its place is removed.
    pub(crate) plane: ControlPlane,
    pub(crate) place: Place,
    programs: Programs,
}

impl Server {
    /// The one of all tests that neither stop it nor change what another test sees: names of objects are a test's own.
    pub(crate) async fn shared() -> Arc<Self> {
        static SHARED: OnceCell<Arc<Server>> = OnceCell::const_new();
        let server = SHARED.get_or_init(|| async {
            place::sweep(SHARED_CONTROL_PLANE);
            let server = Self::start().await;
            server.add_snapshot_kinds();
            server.add_shared_objects();
            Arc::new(server)
        });
        server.await.clone()
    }

    /// One without any object.
    pub(crate) async fn start() -> Self {
        let programs = Programs::build(&workspace()).unwrap();
        let place = Place::create(SHARED_CONTROL_PLANE).unwrap();
        let plane = ControlPlane::start(&programs, place.root()).await.unwrap();
        Self {
            plane,
            place,
            programs,
        }
    }

    /// What all backends share; returns when objects of our kinds are taken.
    pub(crate) fn add_shared_objects(&self) {
        self.apply(&printed(&mut manifests(&["--shared"])).0);
        self.wait_for_kinds();
    }

    /// From the module that the snapshotter is built from; returns when objects of its kinds are taken.
    pub(crate) fn add_snapshot_kinds(&self) {
        let listed = Command::new("go")
            .args(["list", "-m", "-f", "{{.Dir}}"])
            .arg("github.com/kubernetes-csi/external-snapshotter/client/v8")
            .current_dir(workspace().root().join("tests/go/cluster"))
            .output()
            .unwrap();
        assert!(listed.status.success(), "{}", error_of(&listed));
        let module = String::from_utf8(listed.stdout).unwrap();
        let kinds = Path::new(module.trim()).join("config/crd");
        let applied = self.kubectl(&["apply", "--server-side", "-k", kinds.to_str().unwrap()]);
        assert!(applied.status.success(), "{}", error_of(&applied));
        self.wait_for_kinds();
    }

    fn wait_for_kinds(&self) {
        let waited = self.kubectl(&[
            "wait",
            "--for=condition=established",
            "crd",
            "--all",
            "--timeout=60s",
        ]);
        assert!(waited.status.success(), "{}", error_of(&waited));
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Output {
        Command::new(self.programs.path("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Applies a YAML stream as an administrator does.
    pub(crate) fn apply(&self, text: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        let file = file.path().to_str().unwrap();
        let applied = self.kubectl(&["apply", "--server-side", "-f", file]);
        assert!(applied.status.success(), "{}", error_of(&applied));
    }

    /// The administrator's.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig(User::Admin)
    }

    /// The administrator's; it belongs to the runtime of a test.
    pub(crate) async fn client(&self) -> Client {
        self.plane.client().await.unwrap()
    }
}

pub(crate) fn workspace() -> Workspace {
    Workspace::locate().unwrap()
}

/// `wasmount manifests`.
pub(crate) fn manifests(arguments: &[&str]) -> Command {
    let mut command = Command::new(workspace().host_program());
    command.arg("manifests").args(arguments);
    command
}

/// What a successful command prints, and what it warns of.
pub(crate) fn printed(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let warned = error_of(&output);
    assert!(output.status.success(), "{warned}");
    (String::from_utf8(output.stdout).unwrap(), warned)
}

pub(crate) fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until something is there.
pub(crate) async fn soon<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        tokio::time::sleep(LOOK).await;
    }
}

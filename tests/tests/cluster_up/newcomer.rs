//! The command as a newcomer types it, what is asked of the cluster by its kubectl, and what of it may be left on the machine.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use wasmount_tests::loop_devices;
use wasmount_tests::root::needs_root;
use xtask::cluster::lab::Lab;
use xtask::cluster::{BUSYBOX_IMAGE, Cluster};
use xtask::command;
use xtask::process::Process;
use xtask::workspace::Workspace;

/// For `kubectl wait`: seconds on an idle machine.
pub(crate) const PATIENCE: &str = "--timeout=120s";

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Until something is gone, or there: minutes, for a machine that builds other things beside it.
const SOON: Duration = Duration::from_secs(180);

/// The cluster of this target directory; gone with this, however the test ends.
pub(crate) struct Newcomer {
    workspace: Workspace,
}

impl Newcomer {
    pub(crate) fn begin() -> Self {
        needs_root();
        let workspace = Workspace::locate().unwrap();
        let lab = Lab::at(&workspace.cluster()).unwrap();
        assert!(
            !lab.is_used(),
            "a cluster of yours is up: `cargo xtask cluster down` makes room for this test's"
        );
        // Of a test that was killed.
        lab.clean().unwrap();
        Self { workspace }
    }

    /// The command, which ends with this test.
    pub(crate) fn xtask(&self, arguments: &[&str]) -> Command {
        let mut command = Process::command();
        let program = self.workspace.own_program();
        command.arg(program).arg("cluster").args(arguments);
        command
    }

    /// The cluster that is up, which from now on ends with this handle, and with this process.
    pub(crate) fn hold(&self) -> Cluster {
        let found = Cluster::find(&self.workspace, &self.root()).unwrap();
        let mut cluster = found.unwrap();
        cluster.own(true).unwrap();
        cluster
    }

    /// What it said, once it went well.
    pub(crate) fn cluster(&self, arguments: &[&str]) -> String {
        command::read(&mut self.xtask(arguments)).unwrap()
    }

    pub(crate) fn kubectl_command(&self, arguments: &[&str]) -> Command {
        self.xtask(&[&["kubectl", "--"], arguments].concat())
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        command::read(&mut self.kubectl_command(arguments)).unwrap()
    }

    /// What it says to objects that it does not take.
    pub(crate) fn refusal(&self, object: &Value) -> String {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("object.json");
        fs::write(&file, object.to_string()).unwrap();
        let arguments = ["apply", "--filename"];
        let output = command::try_read(self.kubectl_command(&arguments).arg(&file)).unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.kubectl(&[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&printed).unwrap()
    }

    pub(crate) fn apply(&self, objects: &[Value]) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("objects.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(&file, list.to_string()).unwrap();
        self.kubectl(&["apply", "--filename", file.to_str().unwrap()]);
    }

    /// A pod that has ended well, and what it said.
    pub(crate) fn said_by(&self, pod: &str) -> String {
        let succeeded = "--for=jsonpath={.status.phase}=Succeeded";
        self.kubectl(&["wait", succeeded, &format!("pod/{pod}"), PATIENCE]);
        self.kubectl(&["logs", pod])
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.workspace.cluster()
    }

    /// Nothing of the cluster is on the machine any more.
    pub(crate) fn assert_nothing_is_left(&self, volumes: &[String]) {
        let root = self.root();
        assert!(!root.exists());
        let name = root.to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(name), "{mounts}");
        // What an interrupted command had begun ends by itself, without a cluster to speak to.
        wait_until("its last processes have ended", || {
            processes_of(&root).is_empty()
        });
        let group = Lab::at(&root).unwrap().control_group();
        let find = ["/sys/fs/cgroup", "-maxdepth", "2", "-name", &group];
        assert_eq!(command::read(Command::new("find").args(find)).unwrap(), "");
        assert_eq!(attached(volumes), [""; 0]);
    }

    /// Deletes all that tests have made, and waits until no volume is left.
    pub(crate) fn without_volumes(&self) {
        self.kubectl(&["delete", "pods,volumesnapshots,pvc", "--all"]);
        wait_until("the volumes are gone", || {
            self.kubectl(&["get", "pv", "--output", "name"]).is_empty() && self.volumes().is_empty()
        });
    }

    /// Names of what the drivers' pools hold: no two volumes share one.
    pub(crate) fn volumes(&self) -> Vec<String> {
        let mut find = Command::new("find");
        find.arg(self.root().join("lib/wasmount"));
        // What goes while it looks is gone.
        let found = command::try_read(&mut find).unwrap().stdout;
        let found = String::from_utf8(found).unwrap();
        let names = found.lines().filter_map(|it| it.rsplit('/').next());
        names
            .filter(|it| is_volume(it))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        // It has said on standard error what it could not do.
        let _ = self.xtask(&["down"]).status();
    }
}

/// Whether the plugins call a volume's file or directory so.
fn is_volume(name: &str) -> bool {
    name.starts_with("image-") || name.starts_with("volume-")
}

/// The loop devices' files that are these volumes.
pub(crate) fn attached(volumes: &[String]) -> Vec<String> {
    let files = loop_devices::backing_files().unwrap();
    let of_these = |file: &String| volumes.iter().any(|it| file.ends_with(it.as_str()));
    files.into_iter().filter(of_these).collect()
}

/// Processes whose command line has this directory.
pub(crate) fn processes_of(root: &Path) -> BTreeSet<i32> {
    let root = root.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|it| {
        let id = it.file_name().to_str()?.parse().ok()?;
        let line = fs::read(it.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(root).then_some(id)
    })
    .collect()
}

pub(crate) fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < SOON, "in vain: {what}");
        std::thread::sleep(LOOK);
    }
}

pub(crate) fn claim(name: &str, class: &str, source: Option<&str>) -> Value {
    let source = source.map(|name| json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name}));
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": {"requests": {"storage": "16Mi"}},
            "dataSource": source,
        },
    })
}

pub(crate) fn pod(name: &str, claim: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            // A shell that is process 1 ignores SIGTERM.
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main",
                "image": BUSYBOX_IMAGE,
                "command": ["/bin/sh", "-c", script],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

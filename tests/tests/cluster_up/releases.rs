//! The charts in a cluster: a broken install fails, two releases serve, one is upgraded under load and taken out while the other serves, and no
//! uninstall takes records, definitions or StorageBackends with it. Steps of the one test of this program.

use crate::newcomer::{Newcomer, PATIENCE, claim, pod, wait_until};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use xtask::command;
use xtask::helm::{self, Chart};
use xtask::image::{REGISTRY, wasmount_name};

pub(crate) const NAMESPACE: &str = "--namespace=wasmount-system";

/// Time for a release's pods to run; seconds on an idle machine.
const ROLL_OUT: [&str; 2] = ["--wait", "--timeout=180s"];

/// Volumes that come and go under an upgrade at most: it takes seconds on an idle machine, and each of them seconds too.
const LIVES: usize = 40;

/// Helm as the administrator.
fn command_of(newcomer: &Newcomer, arguments: &[&str]) -> Command {
    let mut helm = helm::command(newcomer.workspace()).unwrap();
    helm.env("KUBECONFIG", newcomer.root().join("admin.kubeconfig"));
    helm.args(arguments);
    helm
}

/// Runs Helm, and returns what it says.
fn helm(newcomer: &Newcomer, arguments: &[&str]) -> String {
    command::read(&mut command_of(newcomer, arguments)).unwrap()
}

/// The command that installs or upgrades a backend with the images of the cluster.
fn command_of_release(newcomer: &Newcomer, verb: &str, name: &str, values: &[&str]) -> Command {
    let chart = Chart::Backend.folder(newcomer.workspace());
    let chart = chart.to_str().unwrap();
    let image = format!("image.repository={REGISTRY}/wasmount,sidecars.registry={REGISTRY}");
    let own = [verb, name, chart, NAMESPACE, "--set", &image];
    command_of(newcomer, &[&own[..], &ROLL_OUT, values].concat())
}

/// Installs or upgrades a backend, until its pods are ready.
pub(crate) fn release(newcomer: &Newcomer, verb: &str, name: &str, values: &[&str]) {
    command::read(&mut command_of_release(newcomer, verb, name, values)).unwrap();
}

/// Takes a release out, and waits until its pods are gone.
pub(crate) fn uninstall(newcomer: &Newcomer, name: &str) {
    let arguments = ["uninstall", name, NAMESPACE, "--wait"];
    helm(newcomer, &arguments);
}

/// As `wasmount manifests` prints it for a backend that hosts follow as an object, with the component inside.
fn print_followed(newcomer: &Newcomer) -> String {
    let workspace = newcomer.workspace();
    let mut manifests = Command::new(workspace.host_program());
    manifests.args([
        "manifests",
        "--storage-backends",
        "--image",
        &wasmount_name(),
    ]);
    manifests.args(["--topology", "node-local", "--backend"]);
    manifests.arg(workspace.backend_document("hostpath"));
    let file = newcomer.root().join("followed.yaml");
    fs::write(&file, command::read(&mut manifests).unwrap()).unwrap();
    format!("manifests={}", file.display())
}

/// From backends that were applied by kubectl, of which `local-images` is left, to releases.
pub(crate) fn releases_serve_and_leave_what_is_shared(newcomer: &Newcomer) {
    let file = newcomer.root().join("local-images.yaml");
    newcomer.kubectl(&["delete", "--filename", file.to_str().unwrap()]);
    let shared = Chart::Shared.folder(newcomer.workspace());
    // Then the cluster is one that never had a backend.
    let objects = shared.join("wasmount.yaml");
    newcomer.kubectl(&["delete", "--filename", objects.to_str().unwrap()]);
    let shared = shared.to_str().unwrap();
    helm(newcomer, &["install", "shared", shared]);
    release(
        newcomer,
        "install",
        "local-images",
        &["--set=backend=local-images"],
    );
    let followed = print_followed(newcomer);
    let followed = ["--set-file", &followed];
    a_broken_install_fails(newcomer, &followed);
    release(newcomer, "upgrade", "hostpath", &followed);
    registered(newcomer, "hostpath.wasmount.io local-images.wasmount.io");

    let write =
        "echo kept > /data/word; until test -e /data/end; do sleep 0.1; done; cat /data/word";
    newcomer.apply(&[
        claim("upgraded", "hostpath", None),
        pod("under", "upgraded", write),
        claim("other", "local-images", None),
        pod("beside", "other", "echo kept > /data/word"),
    ]);
    newcomer.said_by("beside");
    newcomer.kubectl(&["wait", "--for=condition=Ready", "pod/under", PATIENCE]);
    is_upgraded_under_load(newcomer, &followed);
    newcomer.apply(&[pod("after", "upgraded", "touch /data/end")]);
    newcomer.said_by("after");
    assert_eq!(newcomer.said_by("under"), "kept\n");

    newcomer.kubectl(&["delete", "pod/under", "pod/after", "pvc/upgraded"]);
    wait_until("its volume is gone", || {
        let volumes = newcomer.kubectl(&["get", "pv", "--output", "name"]);
        volumes.lines().count() == 1
    });
    uninstall(newcomer, "hostpath");
    newcomer.apply(&[pod("reader", "other", "cat /data/word")]);
    assert_eq!(newcomer.said_by("reader"), "kept\n");
    registered(newcomer, "local-images.wasmount.io");
    // The object is there without its hosts, and the release takes it again.
    let names = |kind: &str| newcomer.kubectl(&["get", kind, "--output", "name"]);
    let followed_object = "storagebackend.wasmount.io/hostpath\n";
    assert_eq!(names("storagebackends"), followed_object);
    release(newcomer, "install", "hostpath", &followed);

    helm(newcomer, &["uninstall", "shared"]);
    assert!(names("namespaces").contains("namespace/wasmount-system\n"));
    for plural in ["backendrecords", "storagebackends", "storagebackendnodes"] {
        assert!(names("crds").contains(&format!("/{plural}.wasmount.io\n")));
    }
    assert_eq!(names("storagebackends"), followed_object);
    // What it has left is taken over by the next one.
    helm(newcomer, &["install", "shared", shared, "--take-ownership"]);
    newcomer.without_volumes();
}

/// `helm install --wait` of a backend whose plugin never served, since a setting is wrong.
fn a_broken_install_fails(newcomer: &Newcomer, followed: &[&str]) {
    // A node that had the backend would serve the version from before.
    fs::remove_dir_all(newcomer.root().join("lib/wasmount/hostpath")).unwrap();
    let values = [
        "--set-string=spec.settings.maxVolumesPerNode=many",
        "--timeout=20s",
    ];
    let values = [followed, &values].concat();
    let mut install = command_of_release(newcomer, "install", "hostpath", &values);
    let output = command::try_read(&mut install).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("not ready"),
        "{said}"
    );
    // Its pod runs by now, and says what is wrong.
    let status = [
        "exec",
        NAMESPACE,
        "daemonset/wasmount-hostpath-node",
        "--container=wasmount",
        "--",
        "wasmount",
        "status",
    ];
    let mut found = String::new();
    wait_until("the host says what is wrong", || {
        let output = command::try_read(&mut newcomer.kubectl_command(&status)).unwrap();
        found = String::from_utf8_lossy(&output.stdout).into_owned();
        found.contains("maxVolumesPerNode")
    });
}

/// Volumes come and go until the upgrade is done and one more has lived, each with a pod that writes and reads.
fn live(newcomer: &Newcomer, is_upgraded: &AtomicBool) {
    for number in 0.. {
        assert!(number < LIVES, "the upgrade outlasts {LIVES} volumes");
        let is_last = is_upgraded.load(Ordering::Acquire);
        let name = format!("life-{number}");
        let script = format!("echo {name} > /data/word; cat /data/word");
        newcomer.apply(&[claim(&name, "hostpath", None), pod(&name, &name, &script)]);
        assert_eq!(newcomer.said_by(&name), format!("{name}\n"));
        newcomer.kubectl(&["delete", &format!("pod/{name}"), &format!("pvc/{name}")]);
        if is_last {
            return;
        }
    }
}

/// With other pods, and another limit of the node by a setting. No claim and no pod fails meanwhile.
fn is_upgraded_under_load(newcomer: &Newcomer, followed: &[&str]) {
    let values = [
        "--set-string=spec.settings.maxVolumesPerNode=77",
        "--set=node.podLabels.team=a",
    ];
    let values = [followed, &values].concat();
    let is_upgraded = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| live(newcomer, &is_upgraded));
        release(newcomer, "upgrade", "hostpath", &values);
        is_upgraded.store(true, Ordering::Release);
    });
    let pods = [
        "get",
        "pods",
        NAMESPACE,
        "--selector=team=a",
        "--output=name",
    ];
    assert_eq!(newcomer.kubectl(&pods).lines().count(), 1);
    let limits =
        "jsonpath={.items[0].spec.drivers[?(@.name==\"hostpath.wasmount.io\")].allocatable.count}";
    wait_until("the node has the limit of the setting", || {
        newcomer.kubectl(&["get", "csinodes", "--output", limits]) == "77"
    });
}

/// Waits until kubelet knows these drivers, by name.
pub(crate) fn registered(newcomer: &Newcomer, expected: &str) {
    let drivers = "jsonpath={.items[0].spec.drivers[*].name}";
    wait_until("kubelet knows the drivers", || {
        let found = newcomer.kubectl(&["get", "csinodes", "--output", drivers]);
        let mut found: Vec<_> = found.split(' ').collect();
        found.sort_unstable();
        found.join(" ") == expected
    });
}

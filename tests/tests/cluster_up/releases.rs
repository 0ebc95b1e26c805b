//! The charts in a cluster: two releases serve, one is upgraded under a pod and taken out while the other serves, and no uninstall takes records,
//! definitions or StorageBackends with it. Steps of the one test of this program.

use crate::newcomer::{Newcomer, PATIENCE, claim, pod, wait_until};
use std::fs;
use std::process::Command;
use xtask::command;
use xtask::helm::{self, Chart};
use xtask::image::{REGISTRY, wasmount_name};

/// Time for a release's pods to run; seconds on an idle machine.
const ROLL_OUT: [&str; 2] = ["--wait", "--timeout=180s"];

/// Runs Helm as the administrator, and returns what it says.
fn helm(newcomer: &Newcomer, arguments: &[&str]) -> String {
    let mut helm = helm::command(newcomer.workspace()).unwrap();
    helm.env("KUBECONFIG", newcomer.root().join("admin.kubeconfig"));
    command::read(helm.args(arguments)).unwrap()
}

/// Installs or upgrades a backend with the images of the cluster.
pub(crate) fn release(newcomer: &Newcomer, verb: &str, name: &str, values: &[&str]) {
    let chart = Chart::Backend.folder(newcomer.workspace());
    let chart = chart.to_str().unwrap();
    let image = format!("image.repository={REGISTRY}/wasmount,sidecars.registry={REGISTRY}");
    let own = [
        verb,
        name,
        chart,
        "--namespace=wasmount-system",
        "--set",
        &image,
    ];
    helm(newcomer, &[&own[..], &ROLL_OUT, values].concat());
}

/// Takes a release out, and waits until its pods are gone.
pub(crate) fn uninstall(newcomer: &Newcomer, name: &str) {
    let arguments = ["uninstall", name, "--namespace=wasmount-system", "--wait"];
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
    let shared = shared.to_str().unwrap();
    // The objects are there already.
    helm(newcomer, &["install", "shared", shared, "--take-ownership"]);
    release(
        newcomer,
        "install",
        "local-images",
        &["--set=backend=local-images"],
    );
    let followed = print_followed(newcomer);
    let followed = ["--set-file", &followed];
    release(newcomer, "install", "hostpath", &followed);
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
    is_upgraded(newcomer, &followed);
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
    newcomer.without_volumes();
}

/// With other pods, and another limit of the node by a setting.
fn is_upgraded(newcomer: &Newcomer, followed: &[&str]) {
    let values = [
        "--set-string=spec.settings.maxVolumesPerNode=77",
        "--set=node.podLabels.team=a",
    ];
    release(
        newcomer,
        "upgrade",
        "hostpath",
        &[followed, &values].concat(),
    );
    let pods = [
        "get",
        "pods",
        "--namespace=wasmount-system",
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

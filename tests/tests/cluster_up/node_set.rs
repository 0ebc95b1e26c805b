//! One DaemonSet for two backends, each with a controller of its own: claims of both are bound and used, and one backend is taken out while the other
//! serves. A step of the one test of this program.

use crate::newcomer::{Newcomer, PATIENCE, claim, pod, wait_until};
use crate::releases::{NAMESPACE, registered, release, uninstall};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::runtime::Runtime;
use wasmount_tests::array::{Array, ArrayOptions};
use wasmount_tests::cluster::networked;
use wasmount_tests::documents;
use wasmount_tests::fault_proxy::FaultProxy;
use xtask::cluster::Cluster;
use xtask::cluster::access::NODE_NAME;
use xtask::cluster::inside::NODE_ADDRESS;
use xtask::command;

/// Where the image has the component: pods that serve many backends have a ConfigMap of none.
const PLUGIN: &str = "/opt/wasmount/plugins/array.wasm";

/// A backend, and the storage system that only it uses: a volume is memory of the node, so nobody but the array holds anything.
struct Backend {
    name: &'static str,
    document: PathBuf,
    array: Array,
    _proxy: FaultProxy,
}

impl Backend {
    async fn begin(newcomer: &Newcomer, cluster: &Cluster, name: &'static str) -> Self {
        let options = ArrayOptions {
            hosts: vec![NODE_NAME.to_owned()],
            ..ArrayOptions::default()
        };
        let array = Array::start(options).await.unwrap();
        let proxy = networked::proxy(cluster, NODE_ADDRESS, array.address()).unwrap();
        let folder = newcomer.root().join(name);
        fs::create_dir(&folder).unwrap();
        let document = documents::array_at(&folder, proxy.address()).unwrap();
        let text = fs::read_to_string(&document).unwrap();
        let text = text
            .replace("name: array }", &format!("name: {name} }}"))
            .replace("array.wasmount.io", &driver(name));
        fs::write(&document, text).unwrap();
        Self {
            name,
            document,
            array,
            _proxy: proxy,
        }
    }

    /// Its controller with the sidecars, its class, its object.
    fn install(&self, newcomer: &Newcomer) {
        let file = |name: &str| {
            let folder = self.document.parent().unwrap();
            format!("--from-file={}", folder.join(name).display())
        };
        let secret = format!("wasmount-{}-secrets", self.name);
        newcomer.kubectl(&[
            "create",
            "secret",
            "generic",
            &secret,
            NAMESPACE,
            &file("user"),
            &file("password"),
        ]);
        let flags = ["--in-node-set", "--plugin-in-image", PLUGIN];
        let printed = printed(newcomer, self.name, &flags, &[self]);
        // One of the two that are printed is the leader, and the other one would only wait.
        let values = ["--set-file", &printed, "--set=controller.replicas=1"];
        release(newcomer, "install", self.name, &values);
    }

    /// Takes it out as the documentation says: the object first, while its hosts run.
    fn remove(&self, newcomer: &Newcomer) {
        newcomer.kubectl(&["delete", "storagebackend", self.name]);
        uninstall(newcomer, self.name);
    }

    /// Waits until its array has neither volumes nor attachments.
    fn is_empty(&self) {
        wait_until("the array is empty", || {
            let held = self.array.counts();
            held.volumes.is_empty() && held.attachments.is_empty()
        });
    }
}

fn driver(name: &str) -> String {
    format!("{name}.example.com")
}

/// Prints manifests of backends into a file, and returns the value for Helm.
fn printed(newcomer: &Newcomer, name: &str, flags: &[&str], backends: &[&Backend]) -> String {
    let workspace = newcomer.workspace();
    let mut manifests = Command::new(workspace.host_program());
    manifests.arg("manifests").args(flags);
    manifests.args(
        backends
            .iter()
            .flat_map(|it| [Path::new("--backend"), &it.document]),
    );
    let file = newcomer.root().join(format!("{name}.printed"));
    fs::write(&file, command::read(&mut manifests).unwrap()).unwrap();
    format!("manifests={}", file.display())
}

/// The node set's pod on the only node, and how often its containers were restarted.
fn of_the_node_set(newcomer: &Newcomer) -> String {
    let pods = [
        "get",
        "pods",
        NAMESPACE,
        "--selector=app.kubernetes.io/instance=node-set",
        "--output=jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}",
    ];
    newcomer.kubectl(&pods)
}

pub(crate) fn one_is_deleted_while_the_other_serves(newcomer: &Newcomer, cluster: &Cluster) {
    let runtime = Runtime::new().unwrap();
    let [east, west] =
        ["east", "west"].map(|name| runtime.block_on(Backend::begin(newcomer, cluster, name)));
    let nodes = printed(newcomer, "node-set", &["--node-set"], &[&east, &west]);
    release(newcomer, "install", "nodes", &["--set-file", &nodes]);
    for backend in [&east, &west] {
        backend.install(newcomer);
    }
    registered(
        newcomer,
        "east.example.com local-images.wasmount.io west.example.com",
    );
    let pod_of_all = of_the_node_set(newcomer);
    assert_eq!(pod_of_all.lines().count(), 1, "{pod_of_all}");

    let mut objects: Vec<Value> = Vec::new();
    for name in ["east", "west"] {
        let write = format!("echo {name} > /data/word; exec sleep infinity");
        objects.extend([claim(name, name, None), pod(name, name, &write)]);
    }
    newcomer.apply(&objects);
    for backend in [&east, &west] {
        let name = backend.name;
        let ready = "--for=condition=Ready";
        newcomer.kubectl(&["wait", ready, &format!("pod/{name}"), PATIENCE]);
        is_in_use(newcomer, backend);
        let held = backend.array.counts();
        assert_eq!(
            (held.volumes.len(), held.attachments.len()),
            (1, 1),
            "{name}"
        );
    }

    newcomer.kubectl(&["delete", "pod/east", "pvc/east"]);
    east.is_empty();
    east.remove(newcomer);
    let nodes = printed(newcomer, "node-set", &["--node-set"], &[&west]);
    release(newcomer, "upgrade", "nodes", &["--set-file", &nodes]);
    registered(newcomer, "local-images.wasmount.io west.example.com");
    is_in_use(newcomer, &west);
    newcomer.apply(&[
        claim("later", "west", None),
        pod("later", "later", "stat -f -c %T /data"),
    ]);
    assert_eq!(newcomer.said_by("later"), "tmpfs\n");
    assert_eq!(of_the_node_set(newcomer), pod_of_all);

    newcomer.without_volumes();
    west.is_empty();
    west.remove(newcomer);
    uninstall(newcomer, "nodes");
    registered(newcomer, "local-images.wasmount.io");
}

/// The pod reads what it writes at first into the volume of its backend.
fn is_in_use(newcomer: &Newcomer, backend: &Backend) {
    let look = "until test -s /data/word; do sleep 0.1; done; stat -f -c %T /data; cat /data/word";
    let name = backend.name;
    let seen = newcomer.kubectl(&["exec", name, "--", "/bin/sh", "-c", look]);
    assert_eq!(seen, format!("tmpfs\n{name}\n"));
}

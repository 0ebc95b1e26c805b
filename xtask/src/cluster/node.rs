//! The node of a cluster: containerd and kubelet, with their configurations, each setting with its reason.
//!
//! It starts nothing.

use super::access::{Access, NODE_NAME, User};
use super::inside::NODE_ADDRESS;
use super::lab::Lab;
use super::parts::{CommandLine, Line};
use super::programs::Programs;
use crate::failure::Failure;
use crate::image::archive::{Content, Image, write_layer};
use rustix::fs::statfs;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Its socket, inside.
pub(super) const CONTAINERD: &str = "/run/containerd/containerd.sock";

/// The namespace of containerd that kubelet's containers and images are in.
pub(super) const CONTAINERD_NAMESPACE: &str = "k8s.io";

/// A shell with the usual programs: what pods of tests run.
pub const BUSYBOX_IMAGE: &str = "wasmount.local/busybox:1";

/// What holds the namespaces of a pod.
const PAUSE_IMAGE: &str = "wasmount.local/pause:1";

/// The Debian package's static program.
const BUSYBOX: &str = "/usr/bin/busybox";

/// Where the Debian package of network plugins has them.
const NETWORK_PLUGINS: &str = "/usr/lib/cni";

/// Of pods that are not on the node's network; it is seen by this cluster alone.
const PODS: &str = "10.88.0.0/24";

/// OVERLAYFS_SUPER_MAGIC (statfs(2)).
const OVERLAYFS: i64 = 0x794c_7630;

/// Programs that a busybox is called as, in `/bin` of its image.
const APPLETS: [&str; 28] = [
    "awk",
    "blkid",
    "cat",
    "cmp",
    "cp",
    "date",
    "dd",
    "df",
    "du",
    "echo",
    "find",
    "grep",
    "head",
    "id",
    "kill",
    "ls",
    "md5sum",
    "mkdir",
    "mount",
    "mv",
    "rm",
    "sh",
    "sha256sum",
    "sleep",
    "stat",
    "sync",
    "touch",
    "wc",
];

/// containerd's command line; its configuration is written.
pub(super) fn containerd(lab: &Lab) -> Result<CommandLine, Failure> {
    write(&lab.root().join("cni/10-pods.conflist"), &network())?;
    let path = lab.root().join("containerd.toml");
    write(&path, &containerd_toml(lab))?;
    Ok(Line::of("containerd".into()).flag("--config", path).0)
}

/// Pods get addresses, and reach the node by them. Nothing leaves the node: no rule of a firewall is needed, so none is made.
fn network() -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "ptp",
            "ipMasq": false,
            "ipam": {"type": "host-local", "subnet": PODS, "routes": [{"dst": "0.0.0.0/0"}]},
        }],
    })
    .to_string()
}

fn containerd_toml(lab: &Lab) -> String {
    // A layered file system cannot lie on another one.
    let snapshots = match statfs(lab.root()) {
        Ok(there) if there.f_type == OVERLAYFS => "native",
        _ => "overlayfs",
    };
    let networks = lab.root().join("cni");
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Root in a container, as on many a CI machine, may not lower the score by which the kernel kills: runc would fail.
restrict_oom_score_adj = true
# Its profiles are loaded into the machine's kernel, and stay there.
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshots}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
# No systemd answers in these namespaces.
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = {networks:?}
bin_dir = "{NETWORK_PLUGINS}"
"#
    )
}

/// kubelet's command line; its configuration is written.
pub(super) fn kubelet(
    programs: &Programs,
    lab: &Lab,
    access: &Access,
) -> Result<CommandLine, Failure> {
    let path = lab.root().join("kubelet.json");
    write(&path, &kubelet_config(lab))?;
    Ok(Line::of(programs.path("kubelet"))
        .flag("--config", path)
        .flag("--kubeconfig", access.kubeconfig(User::Node))
        .flag("--hostname-override", NODE_NAME)
        .flag("--node-ip", NODE_ADDRESS.to_string())
        .0)
}

fn kubelet_config(lab: &Lab) -> String {
    let none = "0%";
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD}"),
        // Machines of CI have control groups of both versions; 1.36 still runs on the first.
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", lab.control_group()),
        "enforceNodeAllocatable": [],
        // The machine is somebody's own: its swap, firewall and resolver are none of ours.
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        // Nobody but this cluster reaches its port.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        // A full disk of the machine is no reason to evict a test's pods.
        "evictionHard": {
            "memory.available": none,
            "nodefs.available": none,
            "nodefs.inodesFree": none,
            "imagefs.available": none,
        },
        // Nor is it one to remove images, which come from no registry.
        "imageGCHighThresholdPercent": 100,
        // Nothing answers there; without an address every pod of its own network would tell so by an event.
        "clusterDNS": ["10.96.0.10"],
        // Conditions of volumes become events of pods, and are looked at often enough to wait for.
        "featureGates": {"CSIVolumeHealth": true},
        "volumeStatsAggPeriod": "5s",
    })
    .to_string()
}

/// The images that every cluster has, as files: each holds busybox, and they differ in what runs.
pub(super) fn images(directory: &Path) -> Result<[PathBuf; 2], Failure> {
    let layer = directory.join("busybox.layer");
    let mut contents = vec![("bin/busybox".to_owned(), Content::File(BUSYBOX.into()))];
    contents.extend(APPLETS.map(|it| (format!("bin/{it}"), Content::Link("busybox"))));
    write_layer(&layer, &contents)?;
    let image = |name, arguments: &[&str], file| {
        let path = directory.join(file);
        let image = Image {
            name,
            entrypoint: &[],
            arguments,
            layers: std::slice::from_ref(&layer),
        };
        image.write(&path).map(|()| path)
    };
    Ok([
        image(BUSYBOX_IMAGE, &["/bin/sh"], "busybox.tar")?,
        // It has nothing to do but to be there.
        image(PAUSE_IMAGE, &["/bin/sleep", "infinity"], "pause.tar")?,
    ])
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(Failure::io(format!("write {}", path.display())))
}

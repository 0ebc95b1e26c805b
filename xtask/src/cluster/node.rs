//! The node of a cluster: containerd and kubelet, and their configurations, with a reason for each setting.
//!
//! It starts nothing.

use super::access::{Access, NODE_NAME, User};
use super::inside::NODE_ADDRESS;
use super::lab::Lab;
use super::programs::Programs;
use super::supervisor::Service;
use crate::failure::Failure;
use crate::files;
use crate::image::archive::{Content, Image, write_layer};
use crate::platform::Architecture;
use rustix::fs::statfs;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// containerd's socket, inside.
pub(super) const CONTAINERD: &str = "/run/containerd/containerd.sock";

/// containerd's namespace for kubelet's containers and images.
pub(super) const CONTAINERD_NAMESPACE: &str = "k8s.io";

/// A shell with the usual programs: the image of the tests' pods.
pub const BUSYBOX_IMAGE: &str = "wasmount.local/busybox:1";

/// The image that holds the namespaces of a pod.
const PAUSE_IMAGE: &str = "wasmount.local/pause:1";

/// The Debian package's static program.
const BUSYBOX: &str = "/usr/bin/busybox";

/// The directory of network plugins in the Debian package.
const NETWORK_PLUGINS: &str = "/usr/lib/cni";

/// Validity of the node's lease; 40 s by default. kubelet renews it four times as often, so eight times within `NODE_GRACE`.
const NODE_LEASE: Duration = Duration::from_secs(5);

/// Addresses of pods that are not on the node's network; only this cluster sees them.
const PODS: &str = "10.88.0.0/24";

/// OVERLAYFS_SUPER_MAGIC (statfs(2)).
const OVERLAYFS: i64 = 0x794c_7630;

/// The names of busybox's programs in `/bin` of its image.
const APPLETS: &str = "awk blkid cat cmp cp date dd df du echo find grep head id \
    kill ls md5sum mkdir mount mv rm sh sha256sum sleep stat sync touch wc";

/// containerd's command line; writes its configuration.
pub(super) fn containerd(lab: &Lab) -> Result<Service, Failure> {
    files::write(&lab.root().join("cni/10-pods.conflist"), network())?;
    let path = lab.root().join("containerd.toml");
    files::write(&path, containerd_toml(lab))?;
    Ok(Service::new("containerd", "containerd").flag("--config", path))
}

/// Pods get addresses, and reach the node by them. No traffic leaves the node: no firewall rule is needed, so none is made.
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
    // overlayfs cannot be on top of another overlayfs.
    let snapshots = match statfs(lab.root()) {
        Ok(there) if there.f_type == OVERLAYFS => "native",
        _ => "overlayfs",
    };
    format!(
        include_str!("containerd.toml"),
        containerd = CONTAINERD,
        pause_image = PAUSE_IMAGE,
        network_plugins = NETWORK_PLUGINS,
        snapshots = snapshots,
        networks = lab.root().join("cni"),
    )
}

/// kubelet's command line; writes its configuration.
pub(super) fn kubelet(programs: &Programs, lab: &Lab, access: &Access) -> Result<Service, Failure> {
    let path = lab.root().join("kubelet.json");
    files::write(&path, kubelet_config(lab))?;
    Ok(programs
        .service("kubelet")
        .flag("--config", path)
        .flag("--kubeconfig", access.kubeconfig(User::Node))
        .flag("--hostname-override", NODE_NAME)
        .flag("--node-ip", NODE_ADDRESS.to_string()))
}

fn kubelet_config(lab: &Lab) -> String {
    let none = "0%";
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD}"),
        // CI machines have control groups of both versions; 1.36 still runs on version 1.
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", lab.control_group()),
        "enforceNodeAllocatable": [],
        // The machine may be a developer's own: its swap, firewall and resolver must not be changed.
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        // Only this cluster can reach its port.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        // A full disk of the machine is no reason to evict a test's pods.
        "evictionHard": {
            "memory.available": none,
            "nodefs.available": none,
            "nodefs.inodesFree": none,
            "imagefs.available": none,
        },
        // A full disk is also no reason to remove images, since they are in no registry.
        "imageGCHighThresholdPercent": 100,
        // No server is at this address; without an address every pod on the pod network would get a warning event.
        "clusterDNS": ["10.96.0.10"],
        // Volumes are attached to pods, and detached, once the node's status says that they are in use, or no longer: by default every 10 s, which
        // is most of the time that such a pod takes to start. An unchanged status is written as rarely as by default.
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "5m",
        "nodeLeaseDurationSeconds": NODE_LEASE.as_secs(),
        // A volume under a running pod grows, and is published again, when kubelet looks at the pod: by default every minute.
        "syncFrequency": "5s",
        // Conditions of volumes become events of pods, and are polled often enough for a test.
        "featureGates": {"CSIVolumeHealth": true},
        "volumeStatsAggPeriod": "5s",
    })
    .to_string()
}

/// The images of every cluster, as files: each contains busybox, and they differ in their entry point.
pub(super) fn images(directory: &Path) -> Result<[PathBuf; 2], Failure> {
    let layer = directory.join("busybox.layer");
    let mut contents = vec![("bin/busybox".to_owned(), Content::File(BUSYBOX.into()))];
    contents.extend(
        APPLETS
            .split(' ')
            .map(|it| (format!("bin/{it}"), Content::Link("busybox"))),
    );
    write_layer(&layer, &contents)?;
    let image = |name, arguments: &[&str], file| {
        let path = directory.join(file);
        let image = Image {
            name,
            entrypoint: &[],
            arguments,
            architecture: Architecture::of_this_machine()?,
            layers: std::slice::from_ref(&layer),
        };
        image.write(&path).map(|()| path)
    };
    Ok([
        image(BUSYBOX_IMAGE, &["/bin/sh"], "busybox.tar")?,
        // It only has to run.
        image(PAUSE_IMAGE, &["/bin/sleep", "infinity"], "pause.tar")?,
    ])
}

//! Names of the node set and its objects, which templates and objects share.

/// The value of the label `app.kubernetes.io/instance`, and the directory below `/var/lib/wasmount` and `/run/wasmount`. No backend has this name.
pub(super) const NODE_SET: &str = "node-set";
/// Label of a StorageBackend that the node set serves.
pub(super) const LABEL: &str = "wasmount.io/node-set";
/// The value of that label: the name of the DaemonSet.
pub(super) const DAEMON_SET: &str = "wasmount-node";
/// The ConfigMap with the documents.
pub(super) const CONFIG_MAP: &str = "wasmount-node-backends";
/// The directory of the CSI sockets of all drivers, in kubelet's `plugins`. All of `plugins` would show the host what is staged there. With this name
/// the path of a socket is as long as that of the registration socket, so that no driver's name becomes too long.
pub(super) const SOCKETS: &str = "wasmount";

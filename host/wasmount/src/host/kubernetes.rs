//! What a serving host does for Kubernetes, joined: registration, CSINode, CSIDriver, events. Apart because none of it may stop a driver from
//! serving: each part is a task of its own that says what is wrong and tries again.
//!
//! It holds no rule of Kubernetes; those are the room's (`wasmount_kubernetes`).

use wasmount_kubernetes::ApiAccess;

/// What the command line says of Kubernetes.
#[derive(Debug, Clone)]
pub(crate) struct KubernetesOptions {
    /// Name of the Node and CSINode objects.
    pub(crate) node_name: String,
    /// Whether kubelet is told of the drivers.
    pub(crate) registering: Registering,
    /// Who writes CSINode.
    pub(crate) csi_node: CsiNodeMode,
    /// Whether the CSIDriver objects are written.
    pub(crate) applies_csi_driver: bool,
    /// How the API server is reached.
    pub(crate) api: ApiAccess,
}

/// Whether kubelet is told of the drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registering {
    /// If it has a directory for that.
    WhereKubeletIs,
    /// Or else the host does not start.
    Always,
    /// Somebody else does, or nobody.
    Never,
}

/// Who writes CSINode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CsiNodeMode {
    /// kubelet; the host watches.
    Verify,
    /// The host.
    Manage,
    /// Nobody watches.
    Off,
}

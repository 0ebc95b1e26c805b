//! The flags of `wasmount serve` for Kubernetes: kubelet, and the API server.
//!
//! It opens nothing: `host` checks whether there is a kubelet or an API server.

use crate::host::{CsiNodeMode, KubernetesOptions, RegistrationMode};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use wasmount_core::driver::Role;
use wasmount_kubernetes::ApiAccess;

/// What the host has to do with Kubernetes.
#[derive(Debug, Args)]
pub(super) struct KubernetesFlags {
    /// Name of this node's Node and CSINode objects [default: the node id]
    #[arg(long, value_name = "NAME", env)]
    node_name: Option<String>,

    /// Register drivers with kubelet
    #[arg(long, env, default_value = "auto")]
    registration: RegistrationMode,

    /// Who writes the CSINode object
    #[arg(long, env, default_value = "verify")]
    csinode: CsiNodeMode,

    /// Write the CSIDriver objects, from exports and documents
    #[arg(long, env, default_value = "apply")]
    csidriver: CsiDriverArg,

    /// Kubeconfig for the API server [default: the service account of the pod; none outside a pod]
    #[arg(long, value_name = "FILE", env)]
    kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CsiDriverArg {
    /// The host writes them by server-side apply
    Apply,
    /// The host does not write them: `wasmount manifests` prints them
    Off,
}

impl KubernetesFlags {
    /// The flags as options of the host.
    pub(super) fn options(
        self,
        role: Role,
        host_name: impl FnOnce() -> String,
    ) -> KubernetesOptions {
        let (registration, csi_node) = match role {
            Role::Controller => (RegistrationMode::Off, CsiNodeMode::Off),
            Role::All | Role::Node => (self.registration, self.csinode),
        };
        KubernetesOptions {
            node_name: self.node_name.unwrap_or_else(host_name),
            registration,
            csi_node,
            applies_csi_driver: self.csidriver == CsiDriverArg::Apply,
            api: self
                .kubeconfig
                .map_or(ApiAccess::AsAPod, ApiAccess::Kubeconfig),
        }
    }
}

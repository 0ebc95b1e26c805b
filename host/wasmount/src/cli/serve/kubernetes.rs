//! The flags of `wasmount serve` that are about Kubernetes: kubelet, and the API server.
//!
//! It opens nothing: whether a kubelet or an API server is there is asked by `host`.

use crate::host::{CsiNodeMode, KubernetesOptions, Registering};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use wasmount_core::driver::Role;
use wasmount_kubernetes::ApiAccess;

/// What the host has to do with Kubernetes.
#[derive(Debug, Args)]
pub(super) struct KubernetesFlags {
    /// Name of this node's Node and CSINode objects [default: the host name]
    #[arg(long, value_name = "NAME", env = "WASMOUNT_NODE_NAME")]
    node_name: Option<String>,

    /// Register drivers with kubelet
    #[arg(
        long,
        value_enum,
        env = "WASMOUNT_REGISTRATION",
        default_value = "auto"
    )]
    registration: RegistrationWord,

    /// Who writes the CSINode object
    #[arg(long, value_enum, env = "WASMOUNT_CSINODE", default_value = "verify")]
    csinode: CsiNodeWord,

    /// Write the CSIDriver objects, from exports and documents
    #[arg(long, value_enum, env = "WASMOUNT_CSIDRIVER", default_value = "apply")]
    csidriver: CsiDriverWord,

    /// Kubeconfig for the API server [default: the service account of the pod; none outside a pod]
    #[arg(long, value_name = "FILE", env = "WASMOUNT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RegistrationWord {
    /// If the kubelet directory has `plugins_registry`
    Auto,
    /// Always: the host does not start without that directory
    On,
    /// Never: use node-driver-registrar if kubelet is to know the driver
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CsiNodeWord {
    /// kubelet writes it; the host watches, reports drift and registers again
    Verify,
    /// The host writes it: for nodes without kubelet's plugin manager
    Manage,
    /// The host does not watch it
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CsiDriverWord {
    /// The host writes them by server-side apply
    Apply,
    /// The host does not write them: `wasmount manifests` prints them
    Off,
}

impl KubernetesFlags {
    /// As the host takes them.
    pub(super) fn options(
        self,
        role: Role,
        host_name: impl FnOnce() -> String,
    ) -> KubernetesOptions {
        let Self {
            node_name,
            registration,
            csinode,
            csidriver,
            kubeconfig,
        } = self;
        let on_a_node = role != Role::Controller;
        KubernetesOptions {
            node_name: node_name.unwrap_or_else(host_name),
            registering: match registration {
                RegistrationWord::Auto if on_a_node => Registering::WhereKubeletIs,
                RegistrationWord::On if on_a_node => Registering::Always,
                _ => Registering::Never,
            },
            csi_node: match csinode {
                CsiNodeWord::Verify if on_a_node => CsiNodeMode::Verify,
                CsiNodeWord::Manage if on_a_node => CsiNodeMode::Manage,
                _ => CsiNodeMode::Off,
            },
            applies_csi_driver: csidriver == CsiDriverWord::Apply,
            api: kubeconfig.map_or(ApiAccess::AsAPod, ApiAccess::Kubeconfig),
        }
    }
}

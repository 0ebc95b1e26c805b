//! The flags of `wasmount serve` that are about Kubernetes: kubelet, and the API server. Apart because a host beside no cluster uses none of
//! them, and because their defaults depend on what is there.
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

    /// Whether drivers are registered with kubelet
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

    /// Whether the CSIDriver objects are written, from exports and documents
    #[arg(long, value_enum, env = "WASMOUNT_CSIDRIVER", default_value = "apply")]
    csidriver: CsiDriverWord,

    /// How the API server is reached [default: as a pod does; outside of a pod, not at all]
    #[arg(long, value_name = "FILE", env = "WASMOUNT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RegistrationWord {
    /// Where `plugins_registry` is in the kubelet directory
    Auto,
    /// Always: without that directory the host does not start
    On,
    /// Never: node-driver-registrar does it, or nobody
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CsiNodeWord {
    /// kubelet: the host watches, says what is wrong and registers again
    Verify,
    /// The host: for nodes without kubelet's plugin manager
    Manage,
    /// Nobody watches
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CsiDriverWord {
    /// The host, by server-side apply
    Apply,
    /// Somebody else: `wasmount manifests` prints them
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

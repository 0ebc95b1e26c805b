//! How the API server is reached.

use crate::error::KubernetesError;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::env;
use std::path::PathBuf;

/// What kubelet sets in every pod.
const IN_A_POD: &str = "KUBERNETES_SERVICE_HOST";

/// How the API server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiAccess {
    /// By the service account of the pod; outside of a pod, not at all.
    AsAPod,
    /// By a file.
    Kubeconfig(PathBuf),
}

/// A client; none where there is no cluster. It asks nothing of the API server, which may not be there yet.
pub async fn connect(access: &ApiAccess) -> Result<Option<Client>, KubernetesError> {
    let config = match access {
        ApiAccess::AsAPod if env::var_os(IN_A_POD).is_none() => return Ok(None),
        ApiAccess::AsAPod => {
            // By its address: names do not resolve on the node's own network, where the host runs.
            Config::incluster_env().map_err(KubernetesError::access("the pod's service account"))?
        }
        ApiAccess::Kubeconfig(path) => {
            let what = path.display().to_string();
            let file =
                Kubeconfig::read_from(path).map_err(KubernetesError::access(what.clone()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(KubernetesError::access(what))?
        }
    };
    Client::try_from(config)
        .map(Some)
        .map_err(KubernetesError::access("its address and certificates"))
}

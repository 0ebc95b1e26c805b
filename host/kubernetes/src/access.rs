//! Access to the API server.

use crate::error::KubernetesError;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::env;
use std::error::Error;
use std::path::PathBuf;

/// The variable that kubelet sets in every pod.
const IN_A_POD: &str = "KUBERNETES_SERVICE_HOST";
/// The variable that names the files of kubectl.
const KUBECONFIG: &str = "KUBECONFIG";

/// Access to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiAccess {
    /// By the service account of the pod; outside of a pod there is no access.
    AsAPod,
    /// As kubectl: by `$KUBECONFIG` or `~/.kube/config`; in a pod without `$KUBECONFIG` by its service account.
    AsKubectl,
    /// By a kubeconfig file.
    Kubeconfig(PathBuf),
}

/// A client; none without a cluster. It sends no request: the API server may not be reachable yet.
pub async fn connect(access: &ApiAccess) -> Result<Option<Client>, KubernetesError> {
    let config = match access {
        ApiAccess::AsAPod if !is_in_a_pod() => return Ok(None),
        ApiAccess::AsKubectl if env::var_os(KUBECONFIG).is_some() || !is_in_a_pod() => {
            let what = "$KUBECONFIG or ~/.kube/config";
            let file = Kubeconfig::read().map_err(no_access(what))?;
            of_file(file, what).await?
        }
        ApiAccess::AsAPod | ApiAccess::AsKubectl => {
            // By IP address: DNS names do not resolve in the node's own network namespace, where the host runs.
            Config::incluster_env().map_err(no_access("the pod's service account"))?
        }
        ApiAccess::Kubeconfig(path) => {
            let what = path.display().to_string();
            let file = Kubeconfig::read_from(path).map_err(no_access(&what))?;
            of_file(file, &what).await?
        }
    };
    Client::try_from(config)
        .map(Some)
        .map_err(no_access("its address and certificates"))
}

fn is_in_a_pod() -> bool {
    env::var_os(IN_A_POD).is_some()
}

async fn of_file(file: Kubeconfig, what: &str) -> Result<Config, KubernetesError> {
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(no_access(what))
}

fn no_access<E: Error + Send + Sync + 'static>(by: &str) -> impl FnOnce(E) -> KubernetesError {
    move |source| KubernetesError::Access {
        by: by.to_owned(),
        source: Box::new(source),
    }
}

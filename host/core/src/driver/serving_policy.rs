//! The part of a document that controls how its plugin's calls are served.

use crate::attributes::Attributes;
use crate::capabilities::Hidden;
use crate::document::{CsiDriver, Limits, StorageBackend, VolumeLifecycleMode};
use crate::error::Error;
use crate::fault::FaultKind;
use crate::names::DriverName;
use crate::rpc::Rpc;
use crate::secrets::Secrets;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The serving policy of one version.
#[derive(Debug, Clone)]
pub struct ServingPolicy {
    /// The number of the version, as `wasmount status` shows it; for the log.
    pub version: Option<u64>,
    /// How long one call of the backend may take (`limits.time`).
    pub time_budget: Duration,
    /// Capabilities that are neither advertised nor served.
    pub hidden: Hidden,
    /// The pod info that kubelet must pass.
    pub pod_info: PodInfo,
    /// Whether its controller reads facts of nodes (`grants.nodes`).
    pub reads_nodes: bool,
    /// The receiver of this version's faults, and of no other's. A slow receiver misses the newest.
    pub faults: Option<mpsc::Sender<VersionFault>>,
}

/// A fault of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionFault {
    /// When it was detected.
    pub at: Instant,
    /// The RPC.
    pub rpc: Rpc,
    /// The kind.
    pub kind: FaultKind,
    /// A hash of RPC and subject: the same for a retry.
    pub subject: u64,
    /// The version has answered the same RPC about another subject.
    pub answers_others: bool,
}

impl ServingPolicy {
    /// The policy of a document.
    pub fn of(document: &StorageBackend) -> Self {
        Self {
            time_budget: document.limits.time,
            hidden: document.hidden.clone(),
            pod_info: PodInfo::of(&document.csi_driver),
            reads_nodes: !document.grants.nodes.is_empty(),
            ..Self::default()
        }
    }
}

impl Default for ServingPolicy {
    /// The policy of a document without such settings.
    fn default() -> Self {
        Self {
            version: None,
            time_budget: Limits::default().time,
            hidden: Hidden::default(),
            pod_info: PodInfo::default(),
            reads_nodes: false,
            faults: None,
        }
    }
}

/// The key in the volume context with which kubelet marks an inline volume of a pod: `true`, or `false` for a volume of a claim (`getPodInfoAttrs` of
/// its `pkg/volume/csi`).
pub const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
/// The key of the tokens of a pod's service account: kubelet puts them in the volume context, or with `serviceAccountTokenInSecrets` in the secrets.
/// They are secrets in either place.
pub const SERVICE_ACCOUNT_TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// The information about a pod that a driver requires when its plugin plans a volume of that pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodInfo {
    /// The pod's identity.
    pub identity: bool,
    /// Tokens of the pod's service account.
    pub tokens: bool,
}

impl PodInfo {
    /// The requirements of a document. A driver of inline volumes needs the pod info to distinguish them from volumes of claims.
    pub fn of(driver: &CsiDriver) -> Self {
        let modes = &driver.volume_lifecycle_modes;
        Self {
            identity: driver.pod_info_on_mount == Some(true)
                || modes.contains(&VolumeLifecycleMode::Ephemeral),
            tokens: !driver.token_requests.is_empty(),
        }
    }

    /// Rejects a publish without the required pod info.
    pub(super) fn require(
        self,
        driver: &DriverName,
        volume_context: &Attributes,
        secrets: &Secrets,
    ) -> Result<(), Error> {
        let missing = |key: &str, field: &str| {
            Err(Error::Precondition(format!(
                "`{key}` is missing: the CSIDriver object `{driver}` must have {field}, as `csiDriver` of the backend document wants it"
            )))
        };
        if self.identity && volume_context.get(EPHEMERAL).is_none() {
            return missing(EPHEMERAL, "`podInfoOnMount: true`");
        }
        if self.tokens && secrets.get(SERVICE_ACCOUNT_TOKENS).is_none() {
            return missing(SERVICE_ACCOUNT_TOKENS, "the `tokenRequests`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::TokenRequest;

    fn driver(
        modes: &[VolumeLifecycleMode],
        pod_info: Option<bool>,
        audiences: &[&str],
    ) -> CsiDriver {
        let request = |audience: &&str| TokenRequest {
            audience: (*audience).to_owned(),
            expiration_seconds: None,
        };
        CsiDriver {
            volume_lifecycle_modes: modes.to_vec(),
            pod_info_on_mount: pod_info,
            token_requests: audiences.iter().map(request).collect(),
            ..CsiDriver::default()
        }
    }

    #[test]
    fn what_is_wanted_follows_from_the_document() {
        use VolumeLifecycleMode::{Ephemeral, Persistent};
        for (modes, pod_info, audiences, identity, tokens) in [
            (&[][..], None, &[][..], false, false),
            (&[Persistent], Some(false), &[], false, false),
            (&[Persistent], Some(true), &[], true, false),
            (&[Persistent, Ephemeral], None, &[], true, false),
            (&[Ephemeral], Some(false), &[""], true, true),
            (&[], None, &["vault"], false, true),
        ] {
            let info = PodInfo::of(&driver(modes, pod_info, audiences));
            assert_eq!(info, PodInfo { identity, tokens });
        }
    }
}

//! What a document says of how its plugin's calls are served.

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

/// The terms of one version.
#[derive(Debug, Clone)]
pub struct ServingPolicy {
    /// How long one call of the backend may take (`limits.time`).
    pub time_budget: Duration,
    /// What is neither advertised nor served.
    pub hidden: Hidden,
    /// What kubelet must tell of a pod.
    pub pod_info: PodInfo,
    /// Who is told of this version's faults, and of no other's. One that does not keep up misses the newest.
    pub faults: Option<mpsc::Sender<VersionFault>>,
}

/// A fault of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionFault {
    /// When it was found.
    pub at: Instant,
    /// In which call.
    pub rpc: Rpc,
    /// What kind.
    pub kind: FaultKind,
    /// Which call it was and what it was about, as a number: the same for a retry.
    pub subject: u64,
    /// The version has answered the same call about something else.
    pub answers_others: bool,
}

impl ServingPolicy {
    /// As the document has them.
    pub fn of(document: &StorageBackend) -> Self {
        Self {
            time_budget: document.limits.time,
            hidden: document.hidden.clone(),
            pod_info: PodInfo::of(&document.csi_driver),
            faults: None,
        }
    }
}

impl Default for ServingPolicy {
    /// Those of a document that says nothing.
    fn default() -> Self {
        Self {
            time_budget: Limits::default().time,
            hidden: Hidden::default(),
            pod_info: PodInfo::default(),
            faults: None,
        }
    }
}

/// How kubelet marks an inline volume of a pod, in the volume context: `true`, or `false` for a volume of a claim (`getPodInfoAttrs` of its
/// `pkg/volume/csi`).
pub const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
/// Where kubelet puts the tokens of a pod's service account: in the volume context, or with `serviceAccountTokenInSecrets` in the secrets.
/// They are secrets in either place.
pub const SERVICE_ACCOUNT_TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// What a driver wants to be told of each pod whose volume its plugin plans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodInfo {
    /// Who it is.
    pub identity: bool,
    /// Tokens of its service account.
    pub tokens: bool,
}

impl PodInfo {
    /// As the document has it. Whoever serves volumes of pods cannot tell them from those of claims without being told.
    pub fn of(driver: &CsiDriver) -> Self {
        let modes = &driver.volume_lifecycle_modes;
        Self {
            identity: driver.pod_info_on_mount == Some(true)
                || modes.contains(&VolumeLifecycleMode::Ephemeral),
            tokens: !driver.token_requests.is_empty(),
        }
    }

    /// Refuses a publish that lacks it.
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
            let wanted = PodInfo::of(&driver(modes, pod_info, audiences));
            assert_eq!(wanted, PodInfo { identity, tokens });
        }
    }
}

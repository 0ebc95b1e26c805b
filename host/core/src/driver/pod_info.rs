//! What kubelet tells of the pod when it publishes a volume: only if the CSIDriver object asks for it.
//!
//! It knows the keys by which the host itself goes; what else is told is the plugin's to read.

use crate::attributes::Attributes;
use crate::document::{CsiDriver, VolumeLifecycleMode};
use crate::error::Error;
use crate::names::DriverName;
use crate::secrets::Secrets;

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

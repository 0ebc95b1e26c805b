//! The settings of the Kubernetes `CSIDriver` object that the exports of the plugin do not determine.
//!
//! The names are `CSIDriver.spec`'s.

use super::key_path::{InvalidDocument, KeyPath};
use serde::{Deserialize, Serialize};

/// Shortest lifetime of a token and shortest period of node updates, in seconds (Kubernetes API validation of `CSIDriver`): the API server
/// rejects shorter ones, but only when the object is written.
const TOKEN_SECONDS_MIN: u64 = 600;
const UPDATE_PERIOD_SECONDS_MIN: u64 = 10;
/// Longest period: a year. Nobody waits longer, and times of the host are computed from it.
const UPDATE_PERIOD_SECONDS_MAX: u64 = 365 * 24 * 3600;
/// Longest lifetime of a token, in seconds (the same validation).
const TOKEN_SECONDS_MAX: u64 = 1 << 32;

/// Parts of `CSIDriver.spec`. Absent: Kubernetes' own default, or what the host derives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are CSIDriver's")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.serviceAccountTokenInSecrets) || (has(self.tokenRequests) && self.tokenRequests.size() > 0)",
        "message": "`serviceAccountTokenInSecrets` says where tokens go, and `tokenRequests` requests none",
    },
    {
        "rule": "!has(self.volumeLifecycleModes) || !('Ephemeral' in self.volumeLifecycleModes) || !has(self.podInfoOnMount) || self.podInfoOnMount",
        "message": "`podInfoOnMount` contradicts `volumeLifecycleModes`: a driver learns that a volume is Ephemeral with the pod's name only",
    },
])))]
pub struct CsiDriver {
    pub fs_group_policy: Option<FsGroupPolicy>,
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 2), extend("x-kubernetes-list-type" = "set"))
    )]
    pub volume_lifecycle_modes: Vec<VolumeLifecycleMode>,
    #[cfg_attr(feature = "schema", schemars(length(max = 64), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["audience"],
    )))]
    pub token_requests: Vec<TokenRequest>,
    pub pod_info_on_mount: Option<bool>,
    pub requires_republish: Option<bool>,
    #[serde(rename = "seLinuxMount")]
    pub selinux_mount: Option<bool>,
    pub storage_capacity: Option<bool>,
    #[cfg_attr(feature = "schema", schemars(range(min = UPDATE_PERIOD_SECONDS_MIN, max = UPDATE_PERIOD_SECONDS_MAX)))]
    pub node_allocatable_update_period_seconds: Option<u64>,
    pub service_account_token_in_secrets: Option<bool>,
    pub prevent_pod_scheduling_if_missing: Option<bool>,
}

/// How kubelet treats `fsGroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the variants are CSIDriver's")]
pub enum FsGroupPolicy {
    ReadWriteOnceWithFSType,
    File,
    None,
}

/// Which volumes a driver serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the variants are CSIDriver's")]
pub enum VolumeLifecycleMode {
    Persistent,
    Ephemeral,
}

/// A service account token that kubelet passes along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are CSIDriver's")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenRequest {
    #[cfg_attr(feature = "schema", schemars(length(max = 1024)))]
    pub audience: String,
    #[cfg_attr(feature = "schema", schemars(range(min = TOKEN_SECONDS_MIN, max = TOKEN_SECONDS_MAX)))]
    pub expiration_seconds: Option<u64>,
}

/// Reports what the API server would reject, before any driver serves.
pub(super) fn check(key: &KeyPath, driver: &CsiDriver) -> Result<(), InvalidDocument> {
    let (tokens, modes) = (&driver.token_requests, &driver.volume_lifecycle_modes);
    let tokens_key = key.key("tokenRequests");
    for (index, request) in tokens.iter().enumerate() {
        let key = tokens_key.index(index);
        let mut earlier = tokens.iter().take(index);
        key.key("audience").ensure(
            earlier.all(|earlier| earlier.audience != request.audience),
            "is listed twice",
        )?;
        let seconds = request.expiration_seconds.unwrap_or(TOKEN_SECONDS_MIN);
        key.key("expirationSeconds").ensure(
            (TOKEN_SECONDS_MIN..=TOKEN_SECONDS_MAX).contains(&seconds),
            &format!("must be at least {TOKEN_SECONDS_MIN} and at most {TOKEN_SECONDS_MAX}"),
        )?;
    }
    key.key("serviceAccountTokenInSecrets").ensure(
        driver.service_account_token_in_secrets.is_none() || !tokens.is_empty(),
        "says where tokens go, and `tokenRequests` requests none",
    )?;
    let modes_key = key.key("volumeLifecycleModes");
    for (index, mode) in modes.iter().enumerate() {
        let is_new = !modes.iter().take(index).any(|earlier| earlier == mode);
        modes_key.index(index).ensure(is_new, "is listed twice")?;
    }
    // kubelet reports inline volumes to a driver only together with the pod info (`csi.storage.k8s.io/ephemeral`).
    key.key("podInfoOnMount").ensure(
        !modes.contains(&VolumeLifecycleMode::Ephemeral) || driver.pod_info_on_mount != Some(false),
        "contradicts `volumeLifecycleModes`: a driver learns that a volume is Ephemeral with the pod's name only",
    )?;
    let period = driver.node_allocatable_update_period_seconds;
    key.key("nodeAllocatableUpdatePeriodSeconds").ensure(
        period
            .is_none_or(|it| (UPDATE_PERIOD_SECONDS_MIN..=UPDATE_PERIOD_SECONDS_MAX).contains(&it)),
        &format!(
            "must be at least {UPDATE_PERIOD_SECONDS_MIN} and at most {UPDATE_PERIOD_SECONDS_MAX}"
        ),
    )
}

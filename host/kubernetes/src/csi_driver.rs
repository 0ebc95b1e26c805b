//! The `CSIDriver` object of a driver: what Kubernetes must know before it mounts the first volume.
//!
//! Only fields that follow from the plugin's exports and the document are set: other managers may set the rest. It makes no requests; `change`
//! compares, `keep` writes.

mod change;
mod keep;

pub use change::{Change, change};
pub use keep::{CsiDriverStatus, keep};

use crate::error::KubernetesError;
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec, TokenRequest};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use wasmount_core::capabilities::{Capabilities, ControllerCapability, PluginCapability};
use wasmount_core::document::{self, FsGroupPolicy, VolumeLifecycleMode};
use wasmount_core::names::DriverName;

/// The object, from what the driver advertises (in a process that serves all services) and what the document adds.
pub fn csi_driver(
    name: &DriverName,
    capabilities: &Capabilities,
    document: &document::CsiDriver,
) -> Result<CSIDriver, KubernetesError> {
    let document::CsiDriver {
        fs_group_policy,
        volume_lifecycle_modes,
        token_requests,
        pod_info_on_mount,
        requires_republish,
        selinux_mount,
        storage_capacity,
        node_allocatable_update_period_seconds,
        service_account_token_in_secrets,
        prevent_pod_scheduling_if_missing,
    } = document;
    let ephemeral = volume_lifecycle_modes.contains(&VolumeLifecycleMode::Ephemeral);
    let tells_capacity = tells_capacity(capabilities);
    if *storage_capacity == Some(true) && !tells_capacity {
        return Err(KubernetesError::NoCapacity {
            driver: name.to_string(),
        });
    }
    let token_requests: Vec<_> = token_requests.iter().map(token_request).collect();
    let spec = CSIDriverSpec {
        attach_required: Some(
            capabilities
                .controller
                .contains(&ControllerCapability::PublishUnpublishVolume),
        ),
        volume_lifecycle_modes: Some(lifecycle_modes(volume_lifecycle_modes)),
        pod_info_on_mount: if ephemeral {
            Some(true)
        } else {
            *pod_info_on_mount
        },
        storage_capacity: Some(storage_capacity.unwrap_or(tells_capacity)),
        fs_group_policy: fs_group_policy.map(policy_word),
        token_requests: (!token_requests.is_empty()).then_some(token_requests),
        requires_republish: *requires_republish,
        se_linux_mount: *selinux_mount,
        node_allocatable_update_period_seconds: node_allocatable_update_period_seconds.map(signed),
        service_account_token_in_secrets: *service_account_token_in_secrets,
        prevent_pod_scheduling_if_missing: *prevent_pod_scheduling_if_missing,
    };
    Ok(CSIDriver {
        metadata: ObjectMeta {
            name: Some(name.to_string()),
            ..ObjectMeta::default()
        },
        spec,
    })
}

/// Whether external-provisioner creates CSIStorageCapacity objects: one for each topology segment, so none without topology. With `storageCapacity`
/// and no such object the scheduler finds no node for a pod that waits for its volume.
pub(crate) fn tells_capacity(capabilities: &Capabilities) -> bool {
    let topology = PluginCapability::VolumeAccessibilityConstraints;
    let creates = ControllerCapability::CreateDeleteVolume;
    let tells = ControllerCapability::GetCapacity;
    capabilities.plugin.contains(&topology)
        && [creates, tells]
            .iter()
            .all(|capability| capabilities.controller.contains(capability))
}

fn lifecycle_modes(modes: &[VolumeLifecycleMode]) -> Vec<String> {
    // Kubernetes' default.
    if modes.is_empty() {
        return vec!["Persistent".to_owned()];
    }
    let word = |mode: &VolumeLifecycleMode| match mode {
        VolumeLifecycleMode::Persistent => "Persistent".to_owned(),
        VolumeLifecycleMode::Ephemeral => "Ephemeral".to_owned(),
    };
    modes.iter().map(word).collect()
}

fn policy_word(policy: FsGroupPolicy) -> String {
    match policy {
        FsGroupPolicy::ReadWriteOnceWithFSType => "ReadWriteOnceWithFSType",
        FsGroupPolicy::File => "File",
        FsGroupPolicy::None => "None",
    }
    .to_owned()
}

fn token_request(request: &document::TokenRequest) -> TokenRequest {
    let document::TokenRequest {
        audience,
        expiration_seconds,
    } = request;
    TokenRequest {
        audience: audience.clone(),
        expiration_seconds: expiration_seconds.map(signed),
    }
}

/// Seconds in the type of the API; a larger number becomes its maximum, which has the same effect.
fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

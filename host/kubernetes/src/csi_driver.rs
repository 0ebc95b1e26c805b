//! The `CSIDriver` object of a driver: what Kubernetes must know before it mounts the first volume.
//!
//! Only fields that follow from the plugin's exports and the document are set: other managers may set the rest. It makes no requests; `keep`
//! compares and writes.

mod keep;

pub use keep::keep;

use crate::error::KubernetesError;
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use wasmount_core::capabilities::{Capabilities, ControllerCapability, PluginCapability};
use wasmount_core::document::{self, VolumeLifecycleMode};
use wasmount_core::names::DriverName;

/// The object, from what the driver advertises (in a process that serves all services) and what the document adds.
pub fn csi_driver(
    name: &DriverName,
    capabilities: &Capabilities,
    document: &document::CsiDriver,
) -> Result<CSIDriver, KubernetesError> {
    let reports_capacity = reports_capacity(capabilities);
    if document.storage_capacity == Some(true) && !reports_capacity {
        return Err(KubernetesError::NoCapacity(name.clone()));
    }
    // Its fields and values have the names of the API's.
    let spec: CSIDriverSpec = serde_json::from_value(json!(document)).map_err(|error| {
        let source = Box::new(kube::Error::SerdeError(error));
        let what = format!("derive CSIDriver {name}");
        KubernetesError::Api { what, source }
    })?;
    let modes = spec.volume_lifecycle_modes.filter(|all| !all.is_empty());
    let publishes = ControllerCapability::PublishUnpublishVolume;
    let ephemeral = VolumeLifecycleMode::Ephemeral;
    let pod_info = match document.volume_lifecycle_modes.contains(&ephemeral) {
        true => Some(true),
        false => spec.pod_info_on_mount,
    };
    Ok(CSIDriver {
        metadata: ObjectMeta {
            name: Some(name.to_string()),
            ..ObjectMeta::default()
        },
        spec: CSIDriverSpec {
            attach_required: Some(capabilities.controller.contains(&publishes)),
            // Kubernetes' default.
            volume_lifecycle_modes: Some(modes.unwrap_or_else(|| vec!["Persistent".to_owned()])),
            pod_info_on_mount: pod_info,
            storage_capacity: Some(document.storage_capacity.unwrap_or(reports_capacity)),
            token_requests: spec.token_requests.filter(|all| !all.is_empty()),
            ..spec
        },
    })
}

/// Whether external-provisioner creates CSIStorageCapacity objects: one for each topology segment, so none without topology. With `storageCapacity`
/// and no such object the scheduler finds no node for a pod that waits for its volume.
pub(crate) fn reports_capacity(capabilities: &Capabilities) -> bool {
    let topology = PluginCapability::VolumeAccessibilityConstraints;
    let creates = ControllerCapability::CreateDeleteVolume;
    let get_capacity = ControllerCapability::GetCapacity;
    capabilities.plugin.contains(&topology)
        && [creates, get_capacity]
            .iter()
            .all(|capability| capabilities.controller.contains(capability))
}

#[cfg(test)]
mod tests;

//! Answers of the Controller service.

use super::{capability, condition, node_ids, signed, snapshot, volume};
use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use wasmount_core::backend::{Available, Expanded, ValidateVolume, Validation};
use wasmount_core::capabilities::ControllerCapability;
use wasmount_core::snapshot::Snapshot;
use wasmount_core::volume::{Page, Volume, VolumeEntry, VolumeStatus};
use wire::controller_service_capability::{Rpc, Type, rpc};

pub(crate) fn created_volume(created: Volume) -> wire::CreateVolumeResponse {
    wire::CreateVolumeResponse {
        volume: Some(volume(created)),
    }
}

/// A confirmation repeats what was asked (CSI specification, `ValidateVolumeCapabilitiesResponse.Confirmed`).
pub(crate) fn validation(
    asked: ValidateVolume,
    validation: Validation,
) -> wire::ValidateVolumeCapabilitiesResponse {
    let ValidateVolume {
        id: _,
        context,
        capabilities,
        parameters,
        mutable_parameters,
    } = asked;
    match validation {
        Validation::Unsupported(message) => wire::ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message,
        },
        Validation::Confirmed => wire::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(wire::validate_volume_capabilities_response::Confirmed {
                volume_context: context.into_map(),
                volume_capabilities: capabilities.into_iter().map(capability).collect(),
                parameters: parameters.into_map(),
                mutable_parameters: mutable_parameters.into_map(),
            }),
            message: String::new(),
        },
    }
}

pub(crate) fn volumes(page: Page<VolumeEntry>, tokens: &PageTokens) -> wire::ListVolumesResponse {
    use wire::list_volumes_response::{Entry, VolumeStatus as WireStatus};
    let Page {
        entries,
        next_token,
    } = page;
    let entry = |entry: VolumeEntry| {
        let VolumeEntry {
            volume: listed,
            status,
        } = entry;
        let VolumeStatus {
            published_nodes,
            condition: health,
        } = status;
        Entry {
            volume: Some(volume(listed)),
            status: Some(WireStatus {
                published_node_ids: node_ids(published_nodes),
                volume_condition: health.map(condition),
            }),
        }
    };
    wire::ListVolumesResponse {
        entries: entries.into_iter().map(entry).collect(),
        next_token: sealed(next_token, tokens),
    }
}

/// Empty: the end.
fn sealed(token: Option<String>, tokens: &PageTokens) -> String {
    token.map(|token| tokens.seal(&token)).unwrap_or_default()
}

pub(crate) fn looked_up(entry: VolumeEntry) -> wire::ControllerGetVolumeResponse {
    use wire::controller_get_volume_response::VolumeStatus as WireStatus;
    let VolumeEntry {
        volume: found,
        status,
    } = entry;
    let VolumeStatus {
        published_nodes,
        condition: health,
    } = status;
    wire::ControllerGetVolumeResponse {
        volume: Some(volume(found)),
        status: Some(WireStatus {
            published_node_ids: node_ids(published_nodes),
            volume_condition: health.map(condition),
        }),
    }
}

pub(crate) fn available(available: Available) -> wire::GetCapacityResponse {
    let Available {
        available_bytes,
        maximum_volume_bytes,
        minimum_volume_bytes,
    } = available;
    wire::GetCapacityResponse {
        available_capacity: signed(available_bytes),
        maximum_volume_size: maximum_volume_bytes.map(signed),
        minimum_volume_size: minimum_volume_bytes.map(signed),
    }
}

pub(crate) fn snapshots(page: Page<Snapshot>, tokens: &PageTokens) -> wire::ListSnapshotsResponse {
    let Page {
        entries,
        next_token,
    } = page;
    let entry = |listed| wire::list_snapshots_response::Entry {
        snapshot: Some(snapshot(listed)),
    };
    wire::ListSnapshotsResponse {
        entries: entries.into_iter().map(entry).collect(),
        next_token: sealed(next_token, tokens),
    }
}

pub(crate) fn created_snapshot(created: Snapshot) -> wire::CreateSnapshotResponse {
    wire::CreateSnapshotResponse {
        snapshot: Some(snapshot(created)),
    }
}

pub(crate) fn found_snapshot(found: Snapshot) -> wire::GetSnapshotResponse {
    wire::GetSnapshotResponse {
        snapshot: Some(snapshot(found)),
    }
}

pub(crate) fn expanded(expanded: Expanded) -> wire::ControllerExpandVolumeResponse {
    let Expanded {
        capacity_bytes,
        node_expansion_required,
    } = expanded;
    wire::ControllerExpandVolumeResponse {
        capacity_bytes: signed(capacity_bytes),
        node_expansion_required,
    }
}

pub(crate) fn controller_capabilities(
    capabilities: Vec<ControllerCapability>,
) -> wire::ControllerGetCapabilitiesResponse {
    let capability = |each| wire::ControllerServiceCapability {
        r#type: Some(Type::Rpc(Rpc {
            r#type: controller_capability(each).into(),
        })),
    };
    wire::ControllerGetCapabilitiesResponse {
        capabilities: capabilities.into_iter().map(capability).collect(),
    }
}

fn controller_capability(capability: ControllerCapability) -> rpc::Type {
    match capability {
        ControllerCapability::CreateDeleteVolume => rpc::Type::CreateDeleteVolume,
        ControllerCapability::PublishUnpublishVolume => rpc::Type::PublishUnpublishVolume,
        ControllerCapability::ListVolumes => rpc::Type::ListVolumes,
        ControllerCapability::GetCapacity => rpc::Type::GetCapacity,
        ControllerCapability::CreateDeleteSnapshot => rpc::Type::CreateDeleteSnapshot,
        ControllerCapability::ListSnapshots => rpc::Type::ListSnapshots,
        ControllerCapability::CloneVolume => rpc::Type::CloneVolume,
        ControllerCapability::PublishReadonly => rpc::Type::PublishReadonly,
        ControllerCapability::ExpandVolume => rpc::Type::ExpandVolume,
        ControllerCapability::ListVolumesPublishedNodes => rpc::Type::ListVolumesPublishedNodes,
        ControllerCapability::VolumeCondition => rpc::Type::VolumeCondition,
        ControllerCapability::GetVolume => rpc::Type::GetVolume,
        ControllerCapability::SingleNodeMultiWriter => rpc::Type::SingleNodeMultiWriter,
        ControllerCapability::ModifyVolume => rpc::Type::ModifyVolume,
        ControllerCapability::GetSnapshot => rpc::Type::GetSnapshot,
        ControllerCapability::GetVolumeHealth => rpc::Type::GetVolumeHealth,
        ControllerCapability::ListVolumeHealth => rpc::Type::ListVolumeHealth,
    }
}

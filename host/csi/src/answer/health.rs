//! Answers about health, of the Controller and the Node service.

use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use wasmount_core::driver::{StorageHealth, VolumeHealth, VolumeHealthPage};
use wasmount_core::health::{Health, HealthStatus};
use wire::VolumeHealthErrorType as Type;

pub(crate) fn found_health(health: VolumeHealth) -> wire::ControllerGetVolumeHealthResponse {
    wire::ControllerGetVolumeHealthResponse {
        volume_health: Some(volume_health(health)),
    }
}

pub(crate) fn unhealthy_volumes(
    page: VolumeHealthPage,
    tokens: &PageTokens,
) -> wire::ControllerListVolumeHealthResponse {
    let VolumeHealthPage { entries, next } = page;
    let next = next.map(|position| tokens.seal_position(&position));
    wire::ControllerListVolumeHealthResponse {
        entries: entries.into_iter().map(volume_health).collect(),
        next_token: next.unwrap_or_default(),
    }
}

pub(crate) fn node_health(health: VolumeHealth) -> wire::NodeGetVolumeHealthResponse {
    wire::NodeGetVolumeHealthResponse {
        volume_health: Some(volume_health(health)),
    }
}

/// The host tells storage that it does not reach, and no more.
pub(crate) fn storage_health(storage: Vec<StorageHealth>) -> wire::NodeGetStorageHealthResponse {
    use wire::node_get_storage_health_response::StorageBackendHealth;
    let one = |StorageHealth { reason, message }| StorageBackendHealth {
        status: wire::StorageHealthErrorType::StorageUnreachable.into(),
        reason: reason.to_owned(),
        message,
        volume_capability: None,
    };
    wire::NodeGetStorageHealthResponse {
        backend_health: storage.into_iter().map(one).collect(),
    }
}

fn volume_health(health: VolumeHealth) -> wire::VolumeHealth {
    let VolumeHealth { id, findings } = health;
    wire::VolumeHealth {
        volume_id: id.into_string(),
        health_statuses: findings.into_iter().map(finding).collect(),
    }
}

fn finding(finding: Health) -> wire::volume_health::VolumeHealthEntry {
    let Health {
        status,
        reason,
        message,
    } = finding;
    wire::volume_health::VolumeHealthEntry {
        status: match status {
            HealthStatus::Degraded => Type::Degraded.into(),
            HealthStatus::Inaccessible => Type::Inaccessible.into(),
            HealthStatus::DataLoss => Type::DataLoss.into(),
            // Of a later CSI: the client may know it.
            HealthStatus::Other(number) => number.cast_signed(),
        },
        reason,
        message,
    }
}

//! Converts the core's types to wire messages: node and health.

use super::{condition, signed, topology};
use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use wasmount_core::driver::{NodeInfo, NodeStats, StorageHealth, VolumeHealth, VolumeHealthPage};
use wasmount_core::health::{Health, HealthStatus};
use wasmount_core::mounter::{Usage, VolumeStats};
use wire::VolumeHealthErrorType as Type;
use wire::volume_usage::Unit;

pub(crate) fn node_stats(stats: NodeStats) -> wire::NodeGetVolumeStatsResponse {
    let NodeStats {
        usage: used,
        condition: health,
    } = stats;
    let usages = |VolumeStats { bytes, inodes }| {
        let inodes = inodes.map(|inodes| usage(Unit::Inodes, inodes));
        std::iter::once(usage(Unit::Bytes, bytes)).chain(inodes)
    };
    wire::NodeGetVolumeStatsResponse {
        usage: used.into_iter().flat_map(usages).collect(),
        volume_condition: health.map(condition),
    }
}

fn usage(unit: Unit, usage: Usage) -> wire::VolumeUsage {
    let Usage {
        total,
        used,
        available,
    } = usage;
    wire::VolumeUsage {
        available: available.map_or(0, signed),
        total: signed(total),
        used: used.map_or(0, signed),
        unit: unit.into(),
    }
}

/// 0: the size is unknown.
pub(crate) fn node_expanded(capacity_bytes: u64) -> wire::NodeExpandVolumeResponse {
    wire::NodeExpandVolumeResponse {
        capacity_bytes: signed(capacity_bytes),
    }
}

pub(crate) fn node_info(info: NodeInfo) -> wire::NodeGetInfoResponse {
    let NodeInfo {
        id,
        max_volumes,
        topology: place,
    } = info;
    wire::NodeGetInfoResponse {
        node_id: id.into_string(),
        max_volumes_per_node: max_volumes.map_or(0, signed),
        accessible_topology: place.map(topology),
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

/// The host reports only storage that it cannot reach.
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

pub(crate) fn volume_health(health: VolumeHealth) -> wire::VolumeHealth {
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
            // A status of a later CSI: the client may know it.
            HealthStatus::Other(number) => number.cast_signed(),
        },
        reason,
        message,
    }
}

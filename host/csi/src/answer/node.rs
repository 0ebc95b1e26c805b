//! Answers of the Node service.

use super::{condition, signed, topology};
use crate::wire::csi::v1 as wire;
use wasmount_core::capabilities::NodeCapability;
use wasmount_core::driver::{NodeInfo, NodeStats};
use wasmount_core::mounter::{Usage, VolumeStats};
use wire::node_service_capability::{Rpc, Type, rpc};
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

/// 0: the size is not known.
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

pub(crate) fn node_capabilities(
    capabilities: Vec<NodeCapability>,
) -> wire::NodeGetCapabilitiesResponse {
    let capability = |each| wire::NodeServiceCapability {
        r#type: Some(Type::Rpc(Rpc {
            r#type: node_capability(each).into(),
        })),
    };
    wire::NodeGetCapabilitiesResponse {
        capabilities: capabilities.into_iter().map(capability).collect(),
    }
}

fn node_capability(capability: NodeCapability) -> rpc::Type {
    match capability {
        NodeCapability::StageUnstageVolume => rpc::Type::StageUnstageVolume,
        NodeCapability::GetVolumeStats => rpc::Type::GetVolumeStats,
        NodeCapability::ExpandVolume => rpc::Type::ExpandVolume,
        NodeCapability::VolumeCondition => rpc::Type::VolumeCondition,
        NodeCapability::SingleNodeMultiWriter => rpc::Type::SingleNodeMultiWriter,
        NodeCapability::VolumeMountGroup => rpc::Type::VolumeMountGroup,
        NodeCapability::GetVolumeHealth => rpc::Type::GetVolumeHealth,
        NodeCapability::GetStorageHealth => rpc::Type::GetStorageHealth,
    }
}

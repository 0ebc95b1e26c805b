//! Answers of the GroupController service.

use super::{snapshot, timestamp};
use crate::wire::csi::v1 as wire;
use wasmount_core::capabilities::GroupCapability;
use wasmount_core::snapshot::GroupSnapshot;
use wire::group_controller_service_capability::{Rpc, Type, rpc};

pub(crate) fn created_group(group: GroupSnapshot) -> wire::CreateVolumeGroupSnapshotResponse {
    wire::CreateVolumeGroupSnapshotResponse {
        group_snapshot: Some(group_snapshot(group)),
    }
}

pub(crate) fn found_group(group: GroupSnapshot) -> wire::GetVolumeGroupSnapshotResponse {
    wire::GetVolumeGroupSnapshotResponse {
        group_snapshot: Some(group_snapshot(group)),
    }
}

fn group_snapshot(group: GroupSnapshot) -> wire::VolumeGroupSnapshot {
    let GroupSnapshot {
        id,
        snapshots,
        created_at,
        ready_to_use,
    } = group;
    wire::VolumeGroupSnapshot {
        group_snapshot_id: id.into_string(),
        snapshots: snapshots.into_iter().map(snapshot).collect(),
        creation_time: Some(timestamp(created_at)),
        ready_to_use,
    }
}

pub(crate) fn group_capabilities(
    capabilities: Vec<GroupCapability>,
) -> wire::GroupControllerGetCapabilitiesResponse {
    let capability = |each| {
        let r#type = match each {
            GroupCapability::CreateDeleteGetVolumeGroupSnapshot => {
                rpc::Type::CreateDeleteGetVolumeGroupSnapshot
            }
        };
        wire::GroupControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: r#type.into(),
            })),
        }
    };
    wire::GroupControllerGetCapabilitiesResponse {
        capabilities: capabilities.into_iter().map(capability).collect(),
    }
}

//! Our generated type of every message: what the host really decodes and encodes with.

use prost::{DecodeError, Message};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use wasmount_csi::wire::csi::v1::*;

/// From bytes to one of our types and back.
pub(crate) type Trip = fn(&[u8]) -> Result<Vec<u8>, DecodeError>;

fn trip<M: Message + Default>(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    M::decode(bytes).map(|message| message.encode_to_vec())
}

macro_rules! trips {
    ($($name:literal => $message:ty,)+) => {
        BTreeMap::from([$(($name, trip::<$message> as Trip)),+])
    };
}

/// By the full name of the message.
pub(crate) static TRIPS: LazyLock<BTreeMap<&str, Trip>> = LazyLock::new(|| {
    trips! {
    "csi.v1.BlockMetadata" => BlockMetadata,
    "csi.v1.CapacityRange" => CapacityRange,
    "csi.v1.ControllerExpandVolumeRequest" => ControllerExpandVolumeRequest,
    "csi.v1.ControllerExpandVolumeResponse" => ControllerExpandVolumeResponse,
    "csi.v1.ControllerGetCapabilitiesRequest" => ControllerGetCapabilitiesRequest,
    "csi.v1.ControllerGetCapabilitiesResponse" => ControllerGetCapabilitiesResponse,
    "csi.v1.ControllerGetVolumeHealthRequest" => ControllerGetVolumeHealthRequest,
    "csi.v1.ControllerGetVolumeHealthResponse" => ControllerGetVolumeHealthResponse,
    "csi.v1.ControllerGetVolumeRequest" => ControllerGetVolumeRequest,
    "csi.v1.ControllerGetVolumeResponse" => ControllerGetVolumeResponse,
    "csi.v1.ControllerGetVolumeResponse.VolumeStatus" => controller_get_volume_response::VolumeStatus,
    "csi.v1.ControllerListVolumeHealthRequest" => ControllerListVolumeHealthRequest,
    "csi.v1.ControllerListVolumeHealthResponse" => ControllerListVolumeHealthResponse,
    "csi.v1.ControllerModifyVolumeRequest" => ControllerModifyVolumeRequest,
    "csi.v1.ControllerModifyVolumeResponse" => ControllerModifyVolumeResponse,
    "csi.v1.ControllerPublishVolumeRequest" => ControllerPublishVolumeRequest,
    "csi.v1.ControllerPublishVolumeResponse" => ControllerPublishVolumeResponse,
    "csi.v1.ControllerServiceCapability" => ControllerServiceCapability,
    "csi.v1.ControllerServiceCapability.RPC" => controller_service_capability::Rpc,
    "csi.v1.ControllerUnpublishVolumeRequest" => ControllerUnpublishVolumeRequest,
    "csi.v1.ControllerUnpublishVolumeResponse" => ControllerUnpublishVolumeResponse,
    "csi.v1.CreateSnapshotRequest" => CreateSnapshotRequest,
    "csi.v1.CreateSnapshotResponse" => CreateSnapshotResponse,
    "csi.v1.CreateVolumeGroupSnapshotRequest" => CreateVolumeGroupSnapshotRequest,
    "csi.v1.CreateVolumeGroupSnapshotResponse" => CreateVolumeGroupSnapshotResponse,
    "csi.v1.CreateVolumeRequest" => CreateVolumeRequest,
    "csi.v1.CreateVolumeResponse" => CreateVolumeResponse,
    "csi.v1.DeleteSnapshotRequest" => DeleteSnapshotRequest,
    "csi.v1.DeleteSnapshotResponse" => DeleteSnapshotResponse,
    "csi.v1.DeleteVolumeGroupSnapshotRequest" => DeleteVolumeGroupSnapshotRequest,
    "csi.v1.DeleteVolumeGroupSnapshotResponse" => DeleteVolumeGroupSnapshotResponse,
    "csi.v1.DeleteVolumeRequest" => DeleteVolumeRequest,
    "csi.v1.DeleteVolumeResponse" => DeleteVolumeResponse,
    "csi.v1.GetCapacityRequest" => GetCapacityRequest,
    "csi.v1.GetCapacityResponse" => GetCapacityResponse,
    "csi.v1.GetMetadataAllocatedRequest" => GetMetadataAllocatedRequest,
    "csi.v1.GetMetadataAllocatedResponse" => GetMetadataAllocatedResponse,
    "csi.v1.GetMetadataDeltaRequest" => GetMetadataDeltaRequest,
    "csi.v1.GetMetadataDeltaResponse" => GetMetadataDeltaResponse,
    "csi.v1.GetPluginCapabilitiesRequest" => GetPluginCapabilitiesRequest,
    "csi.v1.GetPluginCapabilitiesResponse" => GetPluginCapabilitiesResponse,
    "csi.v1.GetPluginInfoRequest" => GetPluginInfoRequest,
    "csi.v1.GetPluginInfoResponse" => GetPluginInfoResponse,
    "csi.v1.GetSnapshotRequest" => GetSnapshotRequest,
    "csi.v1.GetSnapshotResponse" => GetSnapshotResponse,
    "csi.v1.GetVolumeGroupSnapshotRequest" => GetVolumeGroupSnapshotRequest,
    "csi.v1.GetVolumeGroupSnapshotResponse" => GetVolumeGroupSnapshotResponse,
    "csi.v1.GroupControllerGetCapabilitiesRequest" => GroupControllerGetCapabilitiesRequest,
    "csi.v1.GroupControllerGetCapabilitiesResponse" => GroupControllerGetCapabilitiesResponse,
    "csi.v1.GroupControllerServiceCapability" => GroupControllerServiceCapability,
    "csi.v1.GroupControllerServiceCapability.RPC" => group_controller_service_capability::Rpc,
    "csi.v1.ListSnapshotsRequest" => ListSnapshotsRequest,
    "csi.v1.ListSnapshotsResponse" => ListSnapshotsResponse,
    "csi.v1.ListSnapshotsResponse.Entry" => list_snapshots_response::Entry,
    "csi.v1.ListVolumesRequest" => ListVolumesRequest,
    "csi.v1.ListVolumesResponse" => ListVolumesResponse,
    "csi.v1.ListVolumesResponse.Entry" => list_volumes_response::Entry,
    "csi.v1.ListVolumesResponse.VolumeStatus" => list_volumes_response::VolumeStatus,
    "csi.v1.NodeExpandVolumeRequest" => NodeExpandVolumeRequest,
    "csi.v1.NodeExpandVolumeResponse" => NodeExpandVolumeResponse,
    "csi.v1.NodeGetCapabilitiesRequest" => NodeGetCapabilitiesRequest,
    "csi.v1.NodeGetCapabilitiesResponse" => NodeGetCapabilitiesResponse,
    "csi.v1.NodeGetInfoRequest" => NodeGetInfoRequest,
    "csi.v1.NodeGetInfoResponse" => NodeGetInfoResponse,
    "csi.v1.NodeGetStorageHealthRequest" => NodeGetStorageHealthRequest,
    "csi.v1.NodeGetStorageHealthResponse" => NodeGetStorageHealthResponse,
    "csi.v1.NodeGetStorageHealthResponse.StorageBackendHealth" => node_get_storage_health_response::StorageBackendHealth,
    "csi.v1.NodeGetVolumeHealthRequest" => NodeGetVolumeHealthRequest,
    "csi.v1.NodeGetVolumeHealthResponse" => NodeGetVolumeHealthResponse,
    "csi.v1.NodeGetVolumeStatsRequest" => NodeGetVolumeStatsRequest,
    "csi.v1.NodeGetVolumeStatsResponse" => NodeGetVolumeStatsResponse,
    "csi.v1.NodePublishVolumeRequest" => NodePublishVolumeRequest,
    "csi.v1.NodePublishVolumeResponse" => NodePublishVolumeResponse,
    "csi.v1.NodeServiceCapability" => NodeServiceCapability,
    "csi.v1.NodeServiceCapability.RPC" => node_service_capability::Rpc,
    "csi.v1.NodeStageVolumeRequest" => NodeStageVolumeRequest,
    "csi.v1.NodeStageVolumeResponse" => NodeStageVolumeResponse,
    "csi.v1.NodeUnpublishVolumeRequest" => NodeUnpublishVolumeRequest,
    "csi.v1.NodeUnpublishVolumeResponse" => NodeUnpublishVolumeResponse,
    "csi.v1.NodeUnstageVolumeRequest" => NodeUnstageVolumeRequest,
    "csi.v1.NodeUnstageVolumeResponse" => NodeUnstageVolumeResponse,
    "csi.v1.PluginCapability" => PluginCapability,
    "csi.v1.PluginCapability.Service" => plugin_capability::Service,
    "csi.v1.PluginCapability.VolumeExpansion" => plugin_capability::VolumeExpansion,
    "csi.v1.ProbeRequest" => ProbeRequest,
    "csi.v1.ProbeResponse" => ProbeResponse,
    "csi.v1.Snapshot" => Snapshot,
    "csi.v1.Topology" => Topology,
    "csi.v1.TopologyRequirement" => TopologyRequirement,
    "csi.v1.ValidateVolumeCapabilitiesRequest" => ValidateVolumeCapabilitiesRequest,
    "csi.v1.ValidateVolumeCapabilitiesResponse" => ValidateVolumeCapabilitiesResponse,
    "csi.v1.ValidateVolumeCapabilitiesResponse.Confirmed" => validate_volume_capabilities_response::Confirmed,
    "csi.v1.Volume" => Volume,
    "csi.v1.VolumeCapability" => VolumeCapability,
    "csi.v1.VolumeCapability.AccessMode" => volume_capability::AccessMode,
    "csi.v1.VolumeCapability.BlockVolume" => volume_capability::BlockVolume,
    "csi.v1.VolumeCapability.MountVolume" => volume_capability::MountVolume,
    "csi.v1.VolumeCondition" => VolumeCondition,
    "csi.v1.VolumeContentSource" => VolumeContentSource,
    "csi.v1.VolumeContentSource.SnapshotSource" => volume_content_source::SnapshotSource,
    "csi.v1.VolumeContentSource.VolumeSource" => volume_content_source::VolumeSource,
    "csi.v1.VolumeGroupSnapshot" => VolumeGroupSnapshot,
    "csi.v1.VolumeHealth" => VolumeHealth,
    "csi.v1.VolumeHealth.VolumeHealthEntry" => volume_health::VolumeHealthEntry,
    "csi.v1.VolumeUsage" => VolumeUsage,}
});

//! The requests of the demo's orchestrator.

use std::path::Path;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use wasmount_csi::wire::csi::v1::{
    CapacityRange, ControllerExpandVolumeRequest, CreateVolumeRequest, DeleteVolumeRequest,
    NodeGetVolumeStatsRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, Volume, VolumeCapability,
};

/// The first requested size: enough for the data, and small enough for any machine.
pub(super) const FIRST_BYTES: i64 = 64 << 20;

/// The requested size of the expansion.
pub(super) const EXPANDED_BYTES: i64 = 128 << 20;

/// The name that the orchestrator chooses; the driver chooses the id.
const NAME: &str = "pvc-demo";

pub(super) fn create() -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: NAME.to_owned(),
        capacity_range: Some(at_least(FIRST_BYTES)),
        volume_capabilities: vec![capability()],
        ..CreateVolumeRequest::default()
    }
}

pub(super) fn stage(volume: &Volume, staging: &Path) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: volume.volume_id.clone(),
        staging_target_path: text(staging),
        volume_capability: Some(capability()),
        volume_context: volume.volume_context.clone(),
        ..NodeStageVolumeRequest::default()
    }
}

pub(super) fn publish(
    volume: &Volume,
    staging: &Path,
    target: &Path,
    readonly: bool,
) -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: volume.volume_id.clone(),
        staging_target_path: text(staging),
        target_path: text(target),
        volume_capability: Some(capability()),
        readonly,
        volume_context: volume.volume_context.clone(),
        ..NodePublishVolumeRequest::default()
    }
}

pub(super) fn stats(volume: &Volume, path: &Path) -> NodeGetVolumeStatsRequest {
    NodeGetVolumeStatsRequest {
        volume_id: volume.volume_id.clone(),
        volume_path: text(path),
        ..NodeGetVolumeStatsRequest::default()
    }
}

pub(super) fn expand(volume: &Volume) -> ControllerExpandVolumeRequest {
    ControllerExpandVolumeRequest {
        volume_id: volume.volume_id.clone(),
        capacity_range: Some(at_least(EXPANDED_BYTES)),
        volume_capability: Some(capability()),
        ..ControllerExpandVolumeRequest::default()
    }
}

pub(super) fn unpublish(volume: &Volume, target: &Path) -> NodeUnpublishVolumeRequest {
    NodeUnpublishVolumeRequest {
        volume_id: volume.volume_id.clone(),
        target_path: text(target),
    }
}

pub(super) fn unstage(volume: &Volume, staging: &Path) -> NodeUnstageVolumeRequest {
    NodeUnstageVolumeRequest {
        volume_id: volume.volume_id.clone(),
        staging_target_path: text(staging),
    }
}

pub(super) fn delete(volume: &Volume) -> DeleteVolumeRequest {
    DeleteVolumeRequest {
        volume_id: volume.volume_id.clone(),
        ..DeleteVolumeRequest::default()
    }
}

/// One node writes; that node may publish it to several pods (CSI specification, SINGLE_NODE_WRITER).
fn capability() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

fn at_least(bytes: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: bytes,
        limit_bytes: 0,
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

//! Valid requests of an orchestrator, as the demo and the tests send them; a test changes the one field that it examines.

use std::path::Path;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use wasmount_csi::wire::csi::v1::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerPublishVolumeRequest,
    CreateVolumeRequest, NodeExpandVolumeRequest, NodeGetVolumeStatsRequest,
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest, VolumeCapability,
};

/// CreateVolume of at least this many bytes.
pub fn create(name: &str, bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(at_least(bytes)),
        volume_capabilities: vec![capability()],
        ..CreateVolumeRequest::default()
    }
}

/// ControllerExpandVolume to at least this many bytes.
pub fn expand(id: &str, bytes: i64) -> ControllerExpandVolumeRequest {
    ControllerExpandVolumeRequest {
        volume_id: id.to_owned(),
        capacity_range: Some(at_least(bytes)),
        volume_capability: Some(capability()),
        ..ControllerExpandVolumeRequest::default()
    }
}

/// ControllerPublishVolume, for reading and writing.
pub fn attach(id: &str, node: &str) -> ControllerPublishVolumeRequest {
    ControllerPublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(capability()),
        ..ControllerPublishVolumeRequest::default()
    }
}

/// NodeStageVolume.
pub fn stage(id: &str, staging: &Path) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: text(staging),
        volume_capability: Some(capability()),
        ..NodeStageVolumeRequest::default()
    }
}

/// NodePublishVolume, for reading and writing.
pub fn publish(id: &str, staging: &Path, target: &Path) -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: text(staging),
        target_path: text(target),
        volume_capability: Some(capability()),
        ..NodePublishVolumeRequest::default()
    }
}

/// NodeUnpublishVolume.
pub fn unpublish(id: &str, target: &Path) -> NodeUnpublishVolumeRequest {
    NodeUnpublishVolumeRequest {
        volume_id: id.to_owned(),
        target_path: text(target),
    }
}

/// NodeUnstageVolume.
pub fn unstage(id: &str, staging: &Path) -> NodeUnstageVolumeRequest {
    NodeUnstageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: text(staging),
    }
}

/// NodeGetVolumeStats.
pub fn stats(id: &str, path: &Path) -> NodeGetVolumeStatsRequest {
    NodeGetVolumeStatsRequest {
        volume_id: id.to_owned(),
        volume_path: text(path),
        ..NodeGetVolumeStatsRequest::default()
    }
}

/// NodeExpandVolume.
pub fn node_expand(id: &str, path: &Path, bytes: i64) -> NodeExpandVolumeRequest {
    NodeExpandVolumeRequest {
        volume_id: id.to_owned(),
        volume_path: text(path),
        capacity_range: Some(at_least(bytes)),
        ..NodeExpandVolumeRequest::default()
    }
}

/// A mounted file system that one node writes to.
pub fn capability() -> VolumeCapability {
    mounted(Mode::SingleNodeWriter, &[])
}

/// A mounted file system with this access mode and these mount flags.
pub fn mounted(mode: Mode, flags: &[&str]) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume {
            mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            ..MountVolume::default()
        })),
    }
}

/// A range without an upper limit.
pub fn at_least(bytes: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: bytes,
        limit_bytes: 0,
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

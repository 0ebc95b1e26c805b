//! Requests for snapshots and clones.

use crate::kinds::Kind;
use crate::orchestrator::{Orchestrator, Volume, patiently};
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use wasmount_csi::wire::csi::v1::{
    CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest, VolumeContentSource,
};

/// From a volume.
pub fn cloned(id: &str) -> Type {
    Type::Volume(VolumeSource {
        volume_id: id.to_owned(),
    })
}

/// From a snapshot.
pub fn restored(id: &str) -> Type {
    Type::Snapshot(SnapshotSource {
        snapshot_id: id.to_owned(),
    })
}

/// CreateVolume with a content source.
pub fn copy(kind: Kind, name: &str, from: Type) -> CreateVolumeRequest {
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource { r#type: Some(from) }),
        ..kind.create(name)
    }
}

/// CreateSnapshot; returns the id.
pub async fn snapshot(
    orchestrator: &Orchestrator,
    volume: &str,
    name: &str,
) -> Result<String, Status> {
    let request = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: name.to_owned(),
        ..CreateSnapshotRequest::default()
    };
    let mut controller = orchestrator.clients().controller;
    let answer = controller.create_snapshot(request).await?.into_inner();
    Ok(answer.snapshot.map(|it| it.snapshot_id).unwrap_or_default())
}

/// DeleteSnapshot.
pub async fn delete_snapshot(orchestrator: &Orchestrator, id: &str) -> Result<(), Status> {
    let request = DeleteSnapshotRequest {
        snapshot_id: id.to_owned(),
        ..DeleteSnapshotRequest::default()
    };
    orchestrator
        .clients()
        .controller
        .delete_snapshot(request)
        .await
        .map(drop)
}

/// A volume with a content source, published to its first pod. Copying may take more than one call.
pub async fn begun_with(
    orchestrator: &Orchestrator,
    kind: Kind,
    name: &str,
    from: Type,
) -> Result<Volume, Status> {
    let request = copy(kind, name, from);
    let created = patiently(&[Code::Aborted], || orchestrator.create(request.clone())).await?;
    let volume = orchestrator
        .place(name, created.0)
        .map_err(|failure| Status::internal(failure.to_string()))?;
    kind.set_up(orchestrator, &volume).await?;
    Ok(volume)
}

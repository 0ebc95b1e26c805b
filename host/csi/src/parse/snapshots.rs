//! Requests of the Controller service about snapshots.

use super::fields::{attributes, optional, page, topology_requirement};
use super::{Parsed, Result, Subject, author_strings, origin, subject};
use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use wasmount_core::backend::CreateSnapshot;
use wasmount_core::driver::ListSnapshotsRequest;
use wasmount_core::names::{RequestedName, SnapshotId, VolumeId};

pub(crate) fn create_snapshot(request: wire::CreateSnapshotRequest) -> Result<CreateSnapshot> {
    let wire::CreateSnapshotRequest {
        source_volume_id,
        name,
        secrets,
        parameters,
        accessibility_requirements,
    } = request;
    let source_volume = VolumeId::parse("source_volume_id", source_volume_id)?;
    let name = RequestedName::parse("name", name)?;
    let parameters = attributes("parameters", parameters)?;
    let accessibility = accessibility_requirements
        .map(topology_requirement)
        .transpose()?;
    let origin = origin(Some(&name), &parameters);
    let strings = author_strings(&[&parameters], None).with(source_volume.as_str());
    Ok(Parsed::new(
        subject("snapshot", name.as_str()),
        secrets,
        CreateSnapshot {
            source_volume,
            name,
            parameters,
            accessibility,
        },
    )
    .made_for(origin)
    .with_author_strings(strings))
}

pub(crate) fn delete_snapshot(request: wire::DeleteSnapshotRequest) -> Result<SnapshotId> {
    let wire::DeleteSnapshotRequest {
        snapshot_id,
        secrets,
    } = request;
    let id = SnapshotId::parse("snapshot_id", snapshot_id)?;
    Ok(Parsed::new(snapshot(&id), secrets, id))
}

pub(crate) fn list_snapshots(
    request: wire::ListSnapshotsRequest,
    tokens: &PageTokens,
) -> Result<ListSnapshotsRequest> {
    let wire::ListSnapshotsRequest {
        max_entries,
        starting_token,
        source_volume_id,
        snapshot_id,
        secrets,
    } = request;
    let source_volume = optional(source_volume_id, |id| {
        VolumeId::parse("source_volume_id", id)
    })?;
    let id = optional(snapshot_id, |id| SnapshotId::parse("snapshot_id", id))?;
    let tokens = tokens.clone().of_source(source_volume.as_ref());
    let page = page(max_entries, starting_token, &tokens)?;
    Ok(Parsed::new(
        id.as_ref().and_then(snapshot),
        secrets,
        ListSnapshotsRequest {
            snapshot: id,
            source_volume,
            page,
        },
    ))
}

pub(crate) fn get_snapshot(request: wire::GetSnapshotRequest) -> Result<SnapshotId> {
    let wire::GetSnapshotRequest {
        snapshot_id,
        secrets,
    } = request;
    let id = SnapshotId::parse("snapshot_id", snapshot_id)?;
    Ok(Parsed::new(snapshot(&id), secrets, id))
}

fn snapshot(id: &SnapshotId) -> Subject {
    subject("snapshot", id.as_str())
}

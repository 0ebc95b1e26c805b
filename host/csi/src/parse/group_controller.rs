//! Requests of the GroupController service.

use super::fields::attributes;
use super::{Parsed, Result, author_strings, subject};
use crate::wire::csi::v1 as wire;
use wasmount_core::backend::CreateGroup;
use wasmount_core::blame::RequestStrings;
use wasmount_core::names::{GroupSnapshotId, InvalidField, RequestedName, SnapshotId, VolumeId};

/// A group and those of its members that the client knows.
pub(crate) type GroupAndMembers = (GroupSnapshotId, Vec<SnapshotId>);

pub(crate) fn create_volume_group_snapshot(
    request: wire::CreateVolumeGroupSnapshotRequest,
) -> Result<CreateGroup> {
    let wire::CreateVolumeGroupSnapshotRequest {
        name,
        source_volume_ids,
        secrets,
        parameters,
    } = request;
    let what = "source_volume_ids";
    let name = RequestedName::parse("name", name)?;
    if source_volume_ids.is_empty() {
        return Err(InvalidField::empty(what).into());
    }
    let source_volumes = source_volume_ids
        .into_iter()
        .map(|id| VolumeId::parse(what, id))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let parameters = attributes("parameters", parameters)?;
    let sources = source_volumes.iter().map(VolumeId::as_str);
    let strings = sources.fold(author_strings(&[&parameters], None), RequestStrings::with);
    Ok(Parsed::new(
        subject("group", name.as_str()),
        secrets,
        CreateGroup {
            name,
            source_volumes,
            parameters,
        },
    )
    .with_author_strings(strings))
}

pub(crate) fn delete_volume_group_snapshot(
    request: wire::DeleteVolumeGroupSnapshotRequest,
) -> Result<GroupAndMembers> {
    let wire::DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id,
        snapshot_ids,
        secrets,
    } = request;
    group_and_members(group_snapshot_id, snapshot_ids, secrets)
}

pub(crate) fn get_volume_group_snapshot(
    request: wire::GetVolumeGroupSnapshotRequest,
) -> Result<GroupAndMembers> {
    let wire::GetVolumeGroupSnapshotRequest {
        group_snapshot_id,
        snapshot_ids,
        secrets,
    } = request;
    group_and_members(group_snapshot_id, snapshot_ids, secrets)
}

/// An empty member list is valid: csi-sanity sends it, and a client that lost its list must be able to delete.
fn group_and_members(
    group: String,
    members: Vec<String>,
    secrets: impl IntoIterator<Item = (String, String)>,
) -> Result<GroupAndMembers> {
    let id = GroupSnapshotId::parse("group_snapshot_id", group)?;
    let members = members
        .into_iter()
        .map(|id| SnapshotId::parse("snapshot_ids", id))
        .collect::<std::result::Result<_, _>>()?;
    Ok(Parsed::new(
        subject("group", id.as_str()),
        secrets,
        (id, members),
    ))
}

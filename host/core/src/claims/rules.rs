//! Which call claims what: one table, as data.
//!
//! A call without claims is a read: it changes nothing, so it neither excludes other calls nor is excluded by them.

use super::table::{Claim, ClaimKey, Kind, Mode};
use crate::names::{GroupSnapshotId, NodeId, NodePath, RequestedName, SnapshotId, VolumeId};
use crate::rpc::Rpc;
use crate::volume::ContentSource;

/// The subject of a call: the fields of its request that can be claimed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Subject<'a> {
    /// The volume.
    pub(crate) volume: Option<&'a VolumeId>,
    /// The node to which it is attached; absent: all nodes.
    pub(crate) node: Option<&'a NodeId>,
    /// The target path.
    pub(crate) target: Option<&'a NodePath>,
    /// The name of the object to create.
    pub(crate) name: Option<&'a RequestedName>,
    /// The content source of a new volume.
    pub(crate) source: Option<&'a ContentSource>,
    /// Source volumes of a group snapshot.
    pub(crate) members: &'a [VolumeId],
    /// The group of snapshots.
    pub(crate) group: Option<&'a GroupSnapshotId>,
    /// Snapshots that are to be deleted.
    pub(crate) snapshots: &'a [SnapshotId],
}

/// A part of a [`Subject`].
#[derive(Debug, Clone, Copy)]
enum Part {
    Volume,
    Attachment,
    Node,
    Target,
    Name(Kind),
    Source,
    Members,
    Group,
    Snapshots,
}

fn row(rpc: Rpc) -> &'static [(Part, Mode)] {
    use Mode::{Exclusive, Shared};
    match rpc {
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::Probe
        | Rpc::ValidateVolumeCapabilities
        | Rpc::ListVolumes
        | Rpc::ControllerListVolumeHealth
        | Rpc::ControllerGetVolumeHealth
        | Rpc::GetCapacity
        | Rpc::ControllerGetCapabilities
        | Rpc::ListSnapshots
        | Rpc::GetSnapshot
        | Rpc::ControllerGetVolume
        | Rpc::GroupControllerGetCapabilities
        | Rpc::GetVolumeGroupSnapshot
        | Rpc::GetMetadataAllocated
        | Rpc::GetMetadataDelta
        | Rpc::NodeGetVolumeStats
        | Rpc::NodeGetCapabilities
        | Rpc::NodeGetInfo
        | Rpc::NodeGetVolumeHealth
        | Rpc::NodeGetStorageHealth => &[],
        Rpc::NodePublishVolume | Rpc::NodeUnpublishVolume => {
            &[(Part::Volume, Shared), (Part::Target, Exclusive)]
        }
        Rpc::NodeStageVolume | Rpc::NodeUnstageVolume | Rpc::NodeExpandVolume => {
            &[(Part::Volume, Exclusive)]
        }
        Rpc::ControllerPublishVolume | Rpc::ControllerUnpublishVolume => {
            &[(Part::Attachment, Exclusive)]
        }
        Rpc::RegisterNode | Rpc::UnregisterNode => &[(Part::Node, Exclusive)],
        Rpc::CreateVolume => &[
            (Part::Name(Kind::Volume), Exclusive),
            (Part::Source, Shared),
        ],
        Rpc::CreateSnapshot => &[
            (Part::Name(Kind::Snapshot), Exclusive),
            (Part::Volume, Shared),
        ],
        Rpc::CreateVolumeGroupSnapshot => &[
            (Part::Name(Kind::Group), Exclusive),
            (Part::Members, Shared),
        ],
        Rpc::DeleteVolume | Rpc::ControllerExpandVolume | Rpc::ControllerModifyVolume => {
            &[(Part::Volume, Exclusive)]
        }
        Rpc::DeleteSnapshot => &[(Part::Snapshots, Exclusive)],
        Rpc::DeleteVolumeGroupSnapshot => &[(Part::Group, Exclusive), (Part::Snapshots, Exclusive)],
    }
}

/// Whether a call changes anything.
pub fn changes(rpc: Rpc) -> bool {
    !row(rpc).is_empty()
}

/// What a call claims.
pub(crate) fn claims(rpc: Rpc, subject: Subject<'_>) -> Vec<Claim> {
    row(rpc)
        .iter()
        .flat_map(|(part, mode)| part.claims(subject, *mode))
        .collect()
}

/// A volume with an exclusive claim: CreateVolume takes it once it knows the id and before it answers; recovery takes it too.
pub(crate) fn volume_alone(id: &VolumeId) -> Vec<Claim> {
    vec![(ClaimKey::Volume(id.clone()), Mode::Exclusive)]
}

impl Part {
    fn claims(self, subject: Subject<'_>, mode: Mode) -> Vec<Claim> {
        let one = |key: Option<ClaimKey>| key.map(|key| (key, mode)).into_iter().collect();
        match self {
            Part::Volume => one(subject.volume.cloned().map(ClaimKey::Volume)),
            // With a node id the mode applies to that node, beside the volume's other nodes. Without one it applies to the whole volume.
            Part::Attachment => match (subject.volume.cloned(), subject.node.cloned()) {
                (Some(volume), Some(node)) => vec![
                    (ClaimKey::Volume(volume.clone()), Mode::Shared),
                    (ClaimKey::Attachment(volume, node), mode),
                ],
                (volume, _) => one(volume.map(ClaimKey::Volume)),
            },
            Part::Node => one(subject.node.cloned().map(ClaimKey::Node)),
            Part::Target => one(subject.target.cloned().map(ClaimKey::Target)),
            Part::Name(kind) => one(subject.name.cloned().map(|name| ClaimKey::Name(kind, name))),
            Part::Source => one(subject.source.map(|source| match source {
                ContentSource::Snapshot(id) => ClaimKey::Snapshot(id.clone()),
                ContentSource::Volume(id) => ClaimKey::Volume(id.clone()),
            })),
            Part::Members => subject
                .members
                .iter()
                .map(|id| (ClaimKey::Volume(id.clone()), mode))
                .collect(),
            Part::Group => one(subject.group.cloned().map(ClaimKey::Group)),
            Part::Snapshots => subject
                .snapshots
                .iter()
                .map(|id| (ClaimKey::Snapshot(id.clone()), mode))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;

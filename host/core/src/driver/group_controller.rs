//! CSI's GroupController service: snapshots of several volumes at one moment.
//!
//! A group that is not ready is told at once: csi-snapshotter asks GetVolumeGroupSnapshot until it is, which every such backend has.

use super::Driver;
use super::work::Work;
use crate::backend::CreateGroup;
use crate::call::Incoming;
use crate::claims::{Subject, claims};
use crate::error::Error;
use crate::names::{GroupSnapshotId, SnapshotId};
use crate::rpc::Rpc;
use crate::snapshot::GroupSnapshot;
use std::sync::Arc;

impl Driver {
    /// CreateVolumeGroupSnapshot.
    pub async fn create_volume_group_snapshot(
        self: &Arc<Self>,
        incoming: Incoming,
        args: CreateGroup,
    ) -> Result<GroupSnapshot, Error> {
        let rpc = Rpc::CreateVolumeGroupSnapshot;
        let subject = Subject {
            name: Some(&args.name),
            members: &args.source_volumes,
            ..Subject::default()
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            let group = work.backend()?.create_group(&work.call, args).await?;
            Ok(work.complete_group(group))
        })
        .await
    }

    /// DeleteVolumeGroupSnapshot, with the members that the client knows of.
    pub async fn delete_volume_group_snapshot(
        self: &Arc<Self>,
        incoming: Incoming,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Result<(), Error> {
        let rpc = Rpc::DeleteVolumeGroupSnapshot;
        let subject = Subject {
            group: Some(&id),
            snapshots: &snapshots,
            ..Subject::default()
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            let backend = work.backend()?;
            Ok(backend.delete_group(&work.call, id, snapshots).await?)
        })
        .await
    }

    /// GetVolumeGroupSnapshot, with the members that the client knows of.
    pub async fn get_volume_group_snapshot(
        self: &Arc<Self>,
        incoming: Incoming,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Result<GroupSnapshot, Error> {
        self.read(Rpc::GetVolumeGroupSnapshot, incoming, |work| async move {
            let group = work.backend()?.get_group(&work.call, id, snapshots).await?;
            Ok(work.complete_group(group))
        })
        .await
    }
}

impl Work {
    /// A group is ready when all its members are (CSI, `VolumeGroupSnapshot.ready_to_use`).
    fn complete_group(&self, mut group: GroupSnapshot) -> GroupSnapshot {
        for member in &mut group.snapshots {
            self.complete_snapshot(member);
            group.ready_to_use &= member.ready_to_use;
        }
        group
    }
}

//! Snapshots: the calls of CSI's Controller service, and the services GroupController and SnapshotMetadata.
//!
//! This module closes two gaps between CSI and backends: a snapshot that is not ready and cannot be listed, and ListSnapshots by id. A group that is
//! not ready is returned at once: csi-snapshotter polls GetVolumeGroupSnapshot, which every such backend has.

use super::controller::not_offered;
use super::paging::{bytes_of_snapshot, joined};
use super::work::Work;
use super::{Driver, ListSnapshotsRequest};
use crate::backend::{CreateGroup, CreateSnapshot, ListSnapshots};
use crate::call::Incoming;
use crate::capabilities::{ControllerCapability, PluginCapability};
use crate::claims::{Subject, claims};
use crate::code::Code;
use crate::error::Error;
use crate::names::{GroupSnapshotId, SnapshotId, VolumeId};
use crate::rpc::Rpc;
use crate::snapshot::{GroupSnapshot, MetadataPage, Snapshot};
use crate::volume::{Page, PageRequest};
use std::slice;
use std::sync::Arc;

impl Driver {
    /// CreateSnapshot.
    pub async fn create_snapshot(
        self: &Arc<Self>,
        incoming: Incoming,
        mut args: CreateSnapshot,
    ) -> Result<Snapshot, Error> {
        if !self.config.profile.has_snapshot_places() {
            // The field belongs to a later CSI, so a server of the earlier version does not know it.
            args.accessibility = None;
        }
        let rpc = Rpc::CreateSnapshot;
        let subject = Subject {
            name: Some(&args.name),
            volume: Some(&args.source_volume),
            ..Subject::default()
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            if args.accessibility.is_some() && !work.places_snapshots() {
                return Err(not_offered("accessibility_requirements of a snapshot"));
            }
            let mut snapshot = work.backend()?.create_snapshot(&work.call, args).await?;
            work.complete_snapshot(&mut snapshot);
            // external-snapshotter polls with ListSnapshots; where it cannot, it takes the first answer as final. ABORTED makes it call again, by the
            // same name, and the backend then reports whether the snapshot is ready.
            if !snapshot.ready_to_use && !work.offers(ControllerCapability::ListSnapshots) {
                return Err(Error::SnapshotNotReady {
                    id: snapshot.id.into_string(),
                });
            }
            Ok(snapshot)
        })
        .await
    }

    /// DeleteSnapshot.
    pub async fn delete_snapshot(
        self: &Arc<Self>,
        incoming: Incoming,
        id: SnapshotId,
    ) -> Result<(), Error> {
        let rpc = Rpc::DeleteSnapshot;
        let subject = Subject {
            snapshots: slice::from_ref(&id),
            ..Subject::default()
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            Ok(work.backend()?.delete_snapshot(&work.call, id).await?)
        })
        .await
    }

    /// ListSnapshots. With an id it is a look-up: an unknown id gives an empty list (CSI specification, ListSnapshots).
    pub async fn list_snapshots(
        self: &Arc<Self>,
        incoming: Incoming,
        request: ListSnapshotsRequest,
    ) -> Result<Page<Snapshot>, Error> {
        self.read(Rpc::ListSnapshots, incoming, |work| async move {
            let ListSnapshotsRequest {
                snapshot,
                source_volume,
                page,
            } = request;
            let Some(id) = snapshot else {
                return work.all_snapshots(source_volume, page).await;
            };
            let found = match work.backend()?.get_snapshot(&work.call, id).await {
                Ok(mut snapshot) => {
                    work.complete_snapshot(&mut snapshot);
                    Some(snapshot)
                }
                Err(error) if error.code() == Code::NotFound => None,
                Err(error) => return Err(error.into()),
            };
            let matches_source = |snapshot: &Snapshot| {
                source_volume
                    .as_ref()
                    .is_none_or(|source| *source == snapshot.source_volume)
            };
            Ok(Page {
                entries: found.into_iter().filter(matches_source).collect(),
                next_token: None,
            })
        })
        .await
    }

    /// GetSnapshot.
    pub async fn get_snapshot(
        self: &Arc<Self>,
        incoming: Incoming,
        id: SnapshotId,
    ) -> Result<Snapshot, Error> {
        self.read(Rpc::GetSnapshot, incoming, |work| async move {
            let mut snapshot = work.backend()?.get_snapshot(&work.call, id).await?;
            work.complete_snapshot(&mut snapshot);
            Ok(snapshot)
        })
        .await
    }

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

    /// One page of GetMetadataDelta; without a base, of GetMetadataAllocated.
    pub async fn get_metadata(
        self: &Arc<Self>,
        incoming: Incoming,
        base: Option<SnapshotId>,
        target: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, Error> {
        let rpc = match &base {
            None => Rpc::GetMetadataAllocated,
            Some(_) => Rpc::GetMetadataDelta,
        };
        self.read(rpc, incoming, |work| async move {
            let (backend, call) = (work.backend()?, &work.call);
            let page = match base {
                None => backend.get_allocated(call, target, offset, max).await,
                Some(base) => backend.get_delta(call, base, target, offset, max).await,
            };
            Ok(page?)
        })
        .await
    }
}

impl Work {
    async fn all_snapshots(
        &self,
        source_volume: Option<VolumeId>,
        page: PageRequest,
    ) -> Result<Page<Snapshot>, Error> {
        let query = |page| async {
            let args = ListSnapshots {
                source_volume: source_volume.clone(),
                page,
            };
            let mut page = self.backend()?.list_snapshots(&self.call, args).await?;
            for snapshot in &mut page.entries {
                self.complete_snapshot(snapshot);
            }
            Ok(page)
        };
        joined(self, "list-snapshots", page, bytes_of_snapshot, query).await
    }

    /// Whether clients receive a topology of snapshots.
    fn places_snapshots(&self) -> bool {
        self.is(PluginCapability::SnapshotAccessibilityConstraints)
    }

    /// "A plugin that returns this field MUST also set the SNAPSHOT_ACCESSIBILITY_CONSTRAINTS plugin capability."
    fn complete_snapshot(&self, snapshot: &mut Snapshot) {
        if !self.places_snapshots() {
            snapshot.accessible_topology.clear();
        }
    }

    /// A group is ready when all its members are (CSI, `VolumeGroupSnapshot.ready_to_use`).
    fn complete_group(&self, mut group: GroupSnapshot) -> GroupSnapshot {
        for member in &mut group.snapshots {
            self.complete_snapshot(member);
            group.ready_to_use &= member.ready_to_use;
        }
        group
    }
}

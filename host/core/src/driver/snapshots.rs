//! The snapshot calls of CSI's Controller service.
//!
//! Two gaps between CSI and backends are closed here: a snapshot that is not ready and cannot be listed, and ListSnapshots by id.

use super::controller::not_offered;
use super::paging::{bytes_of_snapshot, joined};
use super::work::Work;
use super::{Driver, ListSnapshotsRequest};
use crate::backend::{CreateSnapshot, ListSnapshots};
use crate::call::Incoming;
use crate::capabilities::{ControllerCapability, PluginCapability};
use crate::claims::{Subject, claims};
use crate::code::Code;
use crate::error::Error;
use crate::names::{SnapshotId, VolumeId};
use crate::rpc::Rpc;
use crate::snapshot::Snapshot;
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
            // A server does not see a field of a later CSI.
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
            let source = args.source_volume.clone();
            let mut snapshot = work.backend()?.create_snapshot(&work.call, args).await?;
            work.complete_snapshot(&mut snapshot);
            if snapshot.source_volume != source {
                return Err(work.bad_answer(
                    "create-snapshot",
                    "source-volume is not that of the request",
                ));
            }
            // external-snapshotter polls with ListSnapshots; where it cannot, it takes the first answer for the last. ABORTED makes it call
            // again, by the same name, and the backend says then whether the snapshot is ready.
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

    /// ListSnapshots. By id it is a look-up: what does not exist is an empty list (CSI specification, ListSnapshots).
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
            let asked = |snapshot: &Snapshot| {
                source_volume
                    .as_ref()
                    .is_none_or(|source| *source == snapshot.source_volume)
            };
            Ok(Page {
                entries: found.into_iter().filter(asked).collect(),
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
}

impl Work {
    async fn all_snapshots(
        &self,
        source_volume: Option<VolumeId>,
        page: PageRequest,
    ) -> Result<Page<Snapshot>, Error> {
        let ask = |page| async {
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
        joined(self, "list-snapshots", page, bytes_of_snapshot, ask).await
    }

    /// Whether snapshots have a place that clients are told of.
    fn places_snapshots(&self) -> bool {
        let placed = PluginCapability::SnapshotAccessibilityConstraints;
        self.plugin()
            .is_some_and(|plugin| plugin.capabilities.plugin.contains(&placed))
    }

    /// "A plugin that returns this field MUST also set the SNAPSHOT_ACCESSIBILITY_CONSTRAINTS plugin capability."
    pub(super) fn complete_snapshot(&self, snapshot: &mut Snapshot) {
        if !self.places_snapshots() {
            snapshot.accessible_topology.clear();
        }
    }
}

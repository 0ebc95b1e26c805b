//! The snapshot calls of CSI's Controller service. Apart from volumes because a backend can lack all of it.
//!
//! Two gaps between CSI and backends are closed here: a snapshot that is not ready and cannot be listed, and ListSnapshots by id.

use super::{Driver, ListSnapshotsRequest};
use crate::backend::{CreateSnapshot, ListSnapshots};
use crate::call::Incoming;
use crate::capabilities::ControllerCapability;
use crate::claims::{Subject, claims};
use crate::code::Code;
use crate::error::Error;
use crate::names::SnapshotId;
use crate::rpc::Rpc;
use crate::snapshot::Snapshot;
use crate::volume::Page;
use std::slice;
use std::sync::Arc;

impl Driver {
    /// CreateSnapshot.
    pub async fn create_snapshot(
        self: &Arc<Self>,
        incoming: Incoming,
        args: CreateSnapshot,
    ) -> Result<Snapshot, Error> {
        let rpc = Rpc::CreateSnapshot;
        let subject = Subject {
            name: Some(&args.name),
            volume: Some(&args.source_volume),
            ..Subject::default()
        };
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            let source = args.source_volume.clone();
            let snapshot = work.backend()?.create_snapshot(&work.call, args).await?;
            if snapshot.source_volume != source {
                return Err(work.bad_answer(
                    "create-snapshot",
                    "source-volume is not that of the request",
                ));
            }
            // external-snapshotter polls with ListSnapshots; where it cannot, it takes the first answer for the last.
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
            let backend = work.backend()?;
            let Some(id) = snapshot else {
                let args = ListSnapshots {
                    source_volume,
                    page,
                };
                return Ok(backend.list_snapshots(&work.call, args).await?);
            };
            let found = match backend.get_snapshot(&work.call, id).await {
                Ok(snapshot) => Some(snapshot),
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
            Ok(work.backend()?.get_snapshot(&work.call, id).await?)
        })
        .await
    }
}

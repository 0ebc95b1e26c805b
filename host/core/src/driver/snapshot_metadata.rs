//! CSI's SnapshotMetadata service, page by page.

use super::Driver;
use crate::call::Incoming;
use crate::error::Error;
use crate::names::SnapshotId;
use crate::rpc::Rpc;
use crate::snapshot::MetadataPage;
use std::sync::Arc;

impl Driver {
    /// One page of GetMetadataAllocated.
    pub async fn get_metadata_allocated(
        self: &Arc<Self>,
        incoming: Incoming,
        id: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, Error> {
        self.read(Rpc::GetMetadataAllocated, incoming, |work| async move {
            let backend = work.backend()?;
            Ok(backend.get_allocated(&work.call, id, offset, max).await?)
        })
        .await
    }

    /// One page of GetMetadataDelta.
    pub async fn get_metadata_delta(
        self: &Arc<Self>,
        incoming: Incoming,
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, Error> {
        self.read(Rpc::GetMetadataDelta, incoming, |work| async move {
            let backend = work.backend()?;
            Ok(backend
                .get_delta(&work.call, base, target, offset, max)
                .await?)
        })
        .await
    }
}

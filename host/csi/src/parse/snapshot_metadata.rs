//! Requests of the SnapshotMetadata service.

use super::fields::count;
use super::{Parsed, Result, subject};
use crate::error::Error;
use crate::wire::csi::v1 as wire;
use wasmount_core::names::SnapshotId;

/// The requested extents, their start and their number in one answer.
#[derive(Debug)]
pub(crate) struct ExtentsRequest {
    /// Of which snapshot.
    pub(crate) target: SnapshotId,
    /// Only extents that changed since this one; absent: all that are allocated.
    pub(crate) base: Option<SnapshotId>,
    /// In bytes.
    pub(crate) starting_offset: u64,
    /// Most extents of one answer; absent: the host chooses.
    pub(crate) max_results: Option<u32>,
}

pub(crate) fn get_metadata_allocated(
    request: wire::GetMetadataAllocatedRequest,
) -> Result<ExtentsRequest> {
    let wire::GetMetadataAllocatedRequest {
        snapshot_id,
        starting_offset,
        max_results,
        secrets,
    } = request;
    let snapshot = SnapshotId::parse("snapshot_id", snapshot_id)?;
    extents_request(None, snapshot, starting_offset, max_results, secrets)
}

pub(crate) fn get_metadata_delta(request: wire::GetMetadataDeltaRequest) -> Result<ExtentsRequest> {
    let wire::GetMetadataDeltaRequest {
        base_snapshot_id,
        target_snapshot_id,
        starting_offset,
        max_results,
        secrets,
    } = request;
    let base = SnapshotId::parse("base_snapshot_id", base_snapshot_id)?;
    let target = SnapshotId::parse("target_snapshot_id", target_snapshot_id)?;
    extents_request(Some(base), target, starting_offset, max_results, secrets)
}

fn extents_request(
    base: Option<SnapshotId>,
    target: SnapshotId,
    starting_offset: i64,
    max_results: i32,
    secrets: impl IntoIterator<Item = (String, String)>,
) -> Result<ExtentsRequest> {
    let subject = subject("snapshot", target.as_str());
    let starting_offset = u64::try_from(starting_offset).map_err(|_| Error::NegativeOffset)?;
    let max_results = count("max_results", max_results)?;
    Ok(Parsed::new(
        subject,
        secrets,
        ExtentsRequest {
            target,
            base,
            starting_offset,
            max_results,
        },
    ))
}

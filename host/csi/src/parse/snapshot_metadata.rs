//! Requests of the SnapshotMetadata service.

use super::fields::count;
use super::{Parsed, Result, subject};
use crate::error::Error;
use crate::wire::csi::v1 as wire;
use wasmount_core::names::SnapshotId;

/// The requested extents, their start and their number in one answer.
#[derive(Debug)]
pub(crate) struct ExtentsRequest {
    pub(crate) of: ExtentsOf,
    /// In bytes.
    pub(crate) starting_offset: u64,
    /// Most extents of one answer; absent: the host chooses.
    pub(crate) max_results: Option<u32>,
}

/// The subject of the request.
#[derive(Debug, Clone)]
pub(crate) enum ExtentsOf {
    /// The allocated extents of a snapshot.
    Allocated(SnapshotId),
    /// The changed extents between two snapshots.
    Delta {
        base: SnapshotId,
        target: SnapshotId,
    },
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
    extents_request(
        ExtentsOf::Allocated(snapshot),
        starting_offset,
        max_results,
        secrets,
    )
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
    extents_request(
        ExtentsOf::Delta { base, target },
        starting_offset,
        max_results,
        secrets,
    )
}

fn extents_request(
    of: ExtentsOf,
    starting_offset: i64,
    max_results: i32,
    secrets: impl IntoIterator<Item = (String, String)>,
) -> Result<ExtentsRequest> {
    let (ExtentsOf::Allocated(snapshot)
    | ExtentsOf::Delta {
        base: _,
        target: snapshot,
    }) = &of;
    let subject = subject("snapshot", snapshot.as_str());
    let starting_offset = u64::try_from(starting_offset).map_err(|_| Error::NegativeOffset)?;
    let max_results = count("max_results", max_results)?;
    Ok(Parsed::new(
        subject,
        secrets,
        ExtentsRequest {
            of,
            starting_offset,
            max_results,
        },
    ))
}

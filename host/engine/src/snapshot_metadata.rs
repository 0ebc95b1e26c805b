//! Export `snapshot-metadata`: one page at a time; the stream that a client sees is made elsewhere.

use crate::function::Function;
use crate::program::Program;
use crate::session::call_guest;
use wasmount_core::backend::BackendError;
use wasmount_core::call::Call;
use wasmount_core::names::SnapshotId;
use wasmount_core::snapshot::MetadataPage;

const ALLOCATED: Function = Function::ordinary("snapshot-metadata", "get-allocated");
const DELTA: Function = Function::ordinary("snapshot-metadata", "get-delta");

impl Program {
    pub(crate) async fn get_allocated(
        &self,
        call: &Call,
        id: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, BackendError> {
        let closed = call_guest!(
            self,
            call,
            ALLOCATED,
            snapshot_metadata.call_get_allocated(&id.into_string(), offset, max)
        )?;
        closed.check(|checker, page| checker.metadata(page, offset, max))
    }

    pub(crate) async fn get_delta(
        &self,
        call: &Call,
        base: SnapshotId,
        target: SnapshotId,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, BackendError> {
        let closed = call_guest!(
            self,
            call,
            DELTA,
            snapshot_metadata.call_get_delta(
                &base.into_string(),
                &target.into_string(),
                offset,
                max
            )
        )?;
        closed.check(|checker, page| checker.metadata(page, offset, max))
    }
}

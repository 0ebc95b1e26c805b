//! Exports `snapshots` and `snapshot-listing`.

use crate::bindings::exported::{snapshot_listing, snapshots};
use crate::convert;
use crate::function::{Access, Function};
use crate::program::Program;
use crate::session::call_guest;
use wasmount_core::backend::{BackendError, CreateSnapshot, ListSnapshots};
use wasmount_core::call::Call;
use wasmount_core::names::{SnapshotId, VolumeId};
use wasmount_core::snapshot::Snapshot;
use wasmount_core::volume::Page;

const CREATE: Function = Function::ordinary("snapshots", "create-snapshot");
const DELETE: Function = Function::reserved("snapshots", "delete-snapshot");
/// It may write, as look-ups of groups and of metadata may: whoever asks finds that a copy has ended, or begins a lost one again (`pool::Snapshots`
/// of the SDK).
const GET: Function = Function::ordinary("snapshots", "get-snapshot");
const LIST: Function =
    Function::ordinary("snapshot-listing", "list-snapshots").with(Access::ReadOnly);

impl Program {
    pub(crate) async fn create_snapshot(
        &self,
        call: &Call,
        args: CreateSnapshot,
    ) -> Result<Snapshot, BackendError> {
        let CreateSnapshot {
            source_volume,
            name,
            parameters,
            accessibility,
        } = args;
        let args = snapshots::CreateSnapshotArgs {
            source_volume: source_volume.to_string(),
            name: name.into_string(),
            parameters: convert::attributes_to_guest(&parameters),
            accessibility: accessibility.as_ref().map(convert::requirement_to_guest),
        };
        let closed = call_guest!(self, call, CREATE, snapshots.call_create_snapshot(&args))?;
        closed.check(|checker, snapshot| checker.snapshot_of(snapshot, &source_volume))
    }

    pub(crate) async fn delete_snapshot(
        &self,
        call: &Call,
        id: SnapshotId,
    ) -> Result<(), BackendError> {
        let id = id.into_string();
        let closed = call_guest!(self, call, DELETE, snapshots.call_delete_snapshot(&id))?;
        closed.check(|_, ()| Ok(()))
    }

    pub(crate) async fn get_snapshot(
        &self,
        call: &Call,
        id: SnapshotId,
    ) -> Result<Snapshot, BackendError> {
        let closed = call_guest!(
            self,
            call,
            GET,
            snapshots.call_get_snapshot(&id.to_string())
        )?;
        closed.check(|checker, snapshot| checker.snapshot_with(snapshot, &id))
    }

    pub(crate) async fn list_snapshots(
        &self,
        call: &Call,
        args: ListSnapshots,
    ) -> Result<Page<Snapshot>, BackendError> {
        let ListSnapshots {
            source_volume,
            page,
        } = args;
        let args = snapshot_listing::ListSnapshotsArgs {
            source_volume: source_volume.map(VolumeId::into_string),
            page: convert::page_to_guest(&page),
        };
        let closed = call_guest!(
            self,
            call,
            LIST,
            snapshot_listing.call_list_snapshots(&args)
        )?;
        closed.check(|checker, answer| {
            let snapshot_listing::SnapshotPage {
                entries,
                next_token,
            } = answer;
            checker.snapshots(entries, next_token, &page)
        })
    }
}

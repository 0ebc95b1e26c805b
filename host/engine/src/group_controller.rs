//! Export `group-snapshots`.

use crate::bindings::exported::group_snapshots;
use crate::convert;
use crate::function::Function;
use crate::program::Program;
use crate::session::call_guest;
use wasmount_core::backend::{BackendError, CreateGroup};
use wasmount_core::call::Call;
use wasmount_core::names::{GroupSnapshotId, SnapshotId, VolumeId};
use wasmount_core::snapshot::GroupSnapshot;

const CREATE: Function = Function::ordinary("group-snapshots", "create-group-snapshot");
const DELETE: Function = Function::reserved("group-snapshots", "delete-group-snapshot");
const GET: Function = Function::ordinary("group-snapshots", "get-group-snapshot");

impl Program {
    pub(crate) async fn create_group(
        &self,
        call: &Call,
        args: CreateGroup,
    ) -> Result<GroupSnapshot, BackendError> {
        let CreateGroup {
            name,
            source_volumes,
            parameters,
        } = args;
        let args = group_snapshots::CreateGroupArgs {
            name: name.into_string(),
            source_volumes: source_volumes.iter().map(VolumeId::to_string).collect(),
            parameters: convert::attributes_to_guest(&parameters),
        };
        let closed = call_guest!(
            self,
            call,
            CREATE,
            group_snapshots.call_create_group_snapshot(&args)
        )?;
        closed.check(|checker, group| checker.group_of(group, &source_volumes))
    }

    pub(crate) async fn delete_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Result<(), BackendError> {
        let snapshots = ids_to_guest(snapshots);
        let closed = call_guest!(
            self,
            call,
            DELETE,
            group_snapshots.call_delete_group_snapshot(id.as_str(), &snapshots)
        )?;
        closed.check(|_, ()| Ok(()))
    }

    pub(crate) async fn get_group(
        &self,
        call: &Call,
        id: GroupSnapshotId,
        snapshots: Vec<SnapshotId>,
    ) -> Result<GroupSnapshot, BackendError> {
        let snapshots = ids_to_guest(snapshots);
        let closed = call_guest!(
            self,
            call,
            GET,
            group_snapshots.call_get_group_snapshot(id.as_str(), &snapshots)
        )?;
        closed.check(|checker, group| checker.group_with(group, &id))
    }
}

fn ids_to_guest(snapshots: Vec<SnapshotId>) -> Vec<String> {
    snapshots.into_iter().map(SnapshotId::into_string).collect()
}

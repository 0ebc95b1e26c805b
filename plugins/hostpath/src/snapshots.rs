//! Snapshots.
use crate::volumes::content;
use crate::{Hostpath, here};
use wasmount_guest::*;

pub(crate) const SNAPSHOTS: pool::Snapshots = pool::Snapshots::new(here);

impl Snapshots for Hostpath {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        args.parameters.only(&[])?;
        args.must_be_at(&here())?;
        SNAPSHOTS.create(&args, content)
    }

    fn delete_snapshot(id: String) -> Result<(), Error> {
        SNAPSHOTS.delete(&id)
    }

    fn get_snapshot(id: String) -> Result<Snapshot, Error> {
        SNAPSHOTS.get(&id)
    }
}

impl SnapshotListing for Hostpath {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        SNAPSHOTS.list(&args)
    }
}

impl GroupSnapshots for Hostpath {
    fn create_group_snapshot(args: CreateGroupArgs) -> Result<GroupSnapshot, Error> {
        args.parameters.only(&[])?;
        SNAPSHOTS.create_group(&args.name, args.source_volumes, content)
    }

    fn delete_group_snapshot(id: String, snapshots: Vec<String>) -> Result<(), Error> {
        SNAPSHOTS.delete_group(&id, &snapshots)
    }

    fn get_group_snapshot(id: String, snapshots: Vec<String>) -> Result<GroupSnapshot, Error> {
        SNAPSHOTS.get_group(&id, &snapshots)
    }
}

impl SnapshotMetadata for Hostpath {
    fn get_allocated(id: String, offset: u64, max: u32) -> Result<MetadataPage, Error> {
        SNAPSHOTS.allocated(&id, offset, max)
    }

    fn get_delta(from: String, to: String, offset: u64, max: u32) -> Result<MetadataPage, Error> {
        SNAPSHOTS.changed(&from, &to, offset, max)
    }
}

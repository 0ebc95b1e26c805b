//! Snapshots: copies of a directory in the share of their volume.
use crate::Nfs;
use crate::volumes::content;
use wasmount_guest::*;

pub(crate) const SNAPSHOTS: pool::Snapshots = pool::Snapshots::new(Vec::new);
/// Parameters that csi-driver-nfs mounts the share of a snapshot by. Here it is the share of the volume, and mounted already.
const PARAMETERS: [&str; 3] = ["server", "share", "mountOptions"];

impl Snapshots for Nfs {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        args.parameters.only(&PARAMETERS)?;
        SNAPSHOTS.create(&args, content)
    }

    fn delete_snapshot(id: String) -> Result<(), Error> {
        SNAPSHOTS.delete(&id)
    }

    fn get_snapshot(id: String) -> Result<Snapshot, Error> {
        SNAPSHOTS.get(&id)
    }
}

impl SnapshotListing for Nfs {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        SNAPSHOTS.list(&args)
    }
}

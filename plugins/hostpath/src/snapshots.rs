//! Snapshots: copies of a volume's content that nobody mounts, and that begin new volumes. Apart because they live on when their volume is
//! deleted.
//!
//! It does not know how content is copied: sharing blocks or not is the pool's.
use crate::record::{Record, SNAPSHOT, VOLUME, existing};
use crate::{Hostpath, content};
use wasmount_guest::*;

impl Snapshots for Hostpath {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        args.parameters.only(&[])?;
        let id = id::from_name(SNAPSHOT, &args.name);
        if let Some(known) = state::get::<Record>(&id)? {
            if known.value.source.as_ref() != Some(&args.source_volume) {
                return Err(Error::already_exists(
                    "a snapshot of this name is there, of another volume: use another name",
                ));
            }
            return Ok(known.value.into_snapshot(id));
        }
        let from = existing(VOLUME, &args.source_volume)?.value;
        let record = Record::new(from.kind, from.size_bytes, Some(args.source_volume));
        content::keep(&id, &record, || {
            content::copy(
                record.kind,
                record.source.as_deref().unwrap_or_default(),
                &id,
            )
        })?;
        Ok(record.into_snapshot(id))
    }

    fn delete_snapshot(id: String) -> Result<(), Error> {
        content::delete(SNAPSHOT, &id)
    }

    fn get_snapshot(id: String) -> Result<Snapshot, Error> {
        Ok(existing(SNAPSHOT, &id)?.value.into_snapshot(id))
    }
}

//! Exports of the snapshot services. No snapshots are stored: every requested snapshot exists, under the requested name.

use crate::behaviour::{answers, begin, spoil};
use crate::{Misbehave, asked, asked_by, setting};
use wasmount_guest::*;

/// Size of every snapshot, in bytes.
const BYTES: u64 = 1 << 20;
/// Source of a snapshot that was not created in this call.
const SOURCE: &str = "behave.source";

impl Snapshots for Misbehave {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        let behaviour = asked(&args.parameters);
        begin(&behaviour)?;
        let snapshot = snapshot(args.name, args.source_volume, None);
        Ok(spoil(answers::SNAPSHOTS, &behaviour, snapshot))
    }

    fn delete_snapshot(id: SnapshotId) -> Result<(), Error> {
        begin(asked_by(&id))
    }

    fn get_snapshot(id: SnapshotId) -> Result<Snapshot, Error> {
        let behaviour = asked_by(&id).to_owned();
        begin(&behaviour)?;
        let snapshot = snapshot(id, SOURCE.to_owned(), None);
        Ok(spoil(answers::SNAPSHOTS, &behaviour, snapshot))
    }
}

impl SnapshotListing for Misbehave {
    fn list_snapshots(_: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        begin(&setting("list-snapshots"))?;
        Ok((Vec::new(), None).into())
    }
}

impl GroupSnapshots for Misbehave {
    fn create_group_snapshot(args: CreateGroupArgs) -> Result<GroupSnapshot, Error> {
        let behaviour = asked(&args.parameters);
        begin(&behaviour)?;
        let group = group(args.name, args.source_volumes);
        Ok(spoil(answers::GROUPS, &behaviour, group))
    }

    fn delete_group_snapshot(id: String, _: Vec<SnapshotId>) -> Result<(), Error> {
        begin(asked_by(&id))
    }

    fn get_group_snapshot(id: String, _: Vec<SnapshotId>) -> Result<GroupSnapshot, Error> {
        let behaviour = asked_by(&id).to_owned();
        begin(&behaviour)?;
        let group = group(id, vec![SOURCE.to_owned()]);
        Ok(spoil(answers::GROUPS, &behaviour, group))
    }
}

impl SnapshotMetadata for Misbehave {
    fn get_allocated(snapshot: SnapshotId, offset: u64, _: u32) -> Result<MetadataPage, Error> {
        metadata(&snapshot, offset)
    }

    fn get_delta(
        _: SnapshotId,
        target: SnapshotId,
        offset: u64,
        _: u32,
    ) -> Result<MetadataPage, Error> {
        metadata(&target, offset)
    }
}

fn metadata(snapshot: &str, offset: u64) -> Result<MetadataPage, Error> {
    begin(asked_by(snapshot))?;
    let whole = Extent {
        offset_bytes: 0,
        size_bytes: BYTES,
    };
    let page = MetadataPage {
        block_type: BlockType::VariableLength,
        volume_capacity_bytes: BYTES,
        extents: if offset == 0 { vec![whole] } else { Vec::new() },
        next_offset: None,
    };
    Ok(spoil(answers::METADATA, asked_by(snapshot), page))
}

fn snapshot(id: SnapshotId, source_volume: VolumeId, group: Option<String>) -> Snapshot {
    Snapshot {
        group_snapshot_id: group,
        ..Snapshot::new(id, source_volume, BYTES, 0)
    }
}

fn group(id: String, sources: Vec<VolumeId>) -> GroupSnapshot {
    let members = sources.into_iter().enumerate();
    let member = |(number, source)| snapshot(format!("{id}-{number}"), source, Some(id.clone()));
    GroupSnapshot {
        snapshots: members.map(member).collect(),
        created_at: 0,
        ready_to_use: true,
        id: id.clone(),
    }
}

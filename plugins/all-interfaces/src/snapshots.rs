//! The services of snapshots. All were taken at one time and have one size.
use crate::AllInterfaces;
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

const SNAPSHOTS: state::Collection<Record, 1> = state::Collection::new("snapshot");
const GROUPS: state::Collection<Group, 1> = state::Collection::new("group");
const TAKEN_AT: Timestamp = 1_700_000_000_000_000_000;
const BYTES: u64 = 1 << 30;

/// The size of an extent of a snapshot, and the only one that differs between two.
const EXTENT_BYTES: u64 = 1 << 20;
const CHANGED_OFFSET: u64 = 7 << 20;

#[derive(Clone, Serialize, Deserialize)]
struct Record {
    volume: VolumeId,
    group: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Group {
    members: Vec<SnapshotId>,
}

impl Record {
    fn show(self, id: String) -> Snapshot {
        Snapshot {
            group_snapshot_id: self.group,
            ..Snapshot::new(id, self.volume, BYTES, TAKEN_AT)
        }
    }
}

impl Snapshots for AllInterfaces {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        let id = SNAPSHOTS.id(&args.name);
        if let Some(known) = SNAPSHOTS.find(&id)? {
            args.must_be_of(Some(&known.volume))?;
        }
        let record = Record {
            volume: args.source_volume,
            group: None,
        };
        SNAPSHOTS.put(&id, &record)?;
        Ok(record.show(id))
    }

    fn delete_snapshot(id: SnapshotId) -> Result<(), Error> {
        SNAPSHOTS.delete(&id)
    }

    fn get_snapshot(id: SnapshotId) -> Result<Snapshot, Error> {
        Ok(SNAPSHOTS.get(&id)?.show(id))
    }
}

impl SnapshotListing for AllInterfaces {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        let is_meant = |it: &Record| {
            args.source_volume
                .as_ref()
                .is_none_or(|id| *id == it.volume)
        };
        let page = SNAPSHOTS.page(&args.page, |id, it| {
            Ok(Some(it).filter(is_meant).map(|it| it.show(id)))
        })?;
        Ok(page.into())
    }
}

impl GroupSnapshots for AllInterfaces {
    fn create_group_snapshot(args: CreateGroupArgs) -> Result<GroupSnapshot, Error> {
        let id = GROUPS.id(&args.name);
        let mut members = Vec::new();
        for volume in args.source_volumes {
            let member = SNAPSHOTS.id(&format!("{id} {volume}"));
            let group = Some(id.clone());
            SNAPSHOTS.put(&member, &Record { volume, group })?;
            members.push(member);
        }
        GROUPS.put(&id, &Group { members })?;
        group(id)
    }

    fn delete_group_snapshot(id: String, _: Vec<SnapshotId>) -> Result<(), Error> {
        let group = GROUPS.find(&id)?;
        let mut members = group.into_iter().flat_map(|it| it.members);
        members.try_for_each(|member| SNAPSHOTS.delete(&member))?;
        GROUPS.delete(&id)
    }

    fn get_group_snapshot(id: String, snapshots: Vec<SnapshotId>) -> Result<GroupSnapshot, Error> {
        let group = group(id)?;
        let is_member = |id: &SnapshotId| group.snapshots.iter().any(|it| it.id == *id);
        match snapshots.iter().all(is_member) {
            true => Ok(group),
            false => Err(Error::invalid_argument("a snapshot is not in the group")),
        }
    }
}

impl SnapshotMetadata for AllInterfaces {
    fn get_allocated(snapshot: SnapshotId, offset: u64, _: u32) -> Result<MetadataPage, Error> {
        SNAPSHOTS.get(&snapshot)?;
        // Two pages.
        let next = (offset == 0).then_some(EXTENT_BYTES);
        Ok(metadata(offset, next))
    }

    fn get_delta(
        base: SnapshotId,
        target: SnapshotId,
        _: u64,
        _: u32,
    ) -> Result<MetadataPage, Error> {
        SNAPSHOTS.get(&base)?;
        SNAPSHOTS.get(&target)?;
        Ok(metadata(CHANGED_OFFSET, None))
    }
}

fn group(id: String) -> Result<GroupSnapshot, Error> {
    let members = GROUPS.get(&id)?.members.into_iter();
    let snapshots = members.map(|member| Ok(SNAPSHOTS.get(&member)?.show(member)));
    Ok(GroupSnapshot {
        snapshots: snapshots.collect::<Result<_, Error>>()?,
        created_at: TAKEN_AT,
        ready_to_use: true,
        id,
    })
}

fn metadata(offset_bytes: u64, next_offset: Option<u64>) -> MetadataPage {
    MetadataPage {
        block_type: BlockType::FixedLength,
        volume_capacity_bytes: BYTES,
        extents: vec![Extent {
            offset_bytes,
            size_bytes: EXTENT_BYTES,
        }],
        next_offset,
    }
}

//! Snapshots as copies in a pool, and groups of them, with their records: all snapshot RPCs of CSI for backends whose volumes are in pools.
//!
//! A copy may outlast the call that began it. So the record of a snapshot is written first, and marked later when its copy was seen to be complete;
//! if a copy is lost because the host ended, the next call that requests it begins it again.

use super::Content;
use crate::error::{Code, Error};
use crate::snapshots::{
    CreateSnapshotArgs, GroupSnapshot, ListSnapshotsArgs, MetadataPage, SnapshotPage,
};
use crate::state::Collection;
use crate::volume::{Snapshot, SnapshotId, Timestamp, Topology, VolumeId, now};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Extents in a page where the client does not set a number: 16 KiB.
const MOST_EXTENTS: u32 = 1024;

/// Snapshots in pools. `fn` returns the places that they are reachable from; none means everywhere.
#[derive(Debug)]
pub struct Snapshots {
    records: Collection<Record, 1>,
    groups: Collection<Group, 1>,
    places: fn() -> Vec<Topology>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    source_volume: VolumeId,
    content: Content,
    created_at: Timestamp,
    group: Option<String>,
    /// Its copy was seen to be complete: content that is missing later is lost, and not copied again.
    is_ready: bool,
}

/// Snapshots by their source volumes.
type Members = BTreeMap<VolumeId, SnapshotId>;

/// Written last: without this record its members are not a group, and may be deleted one by one.
#[derive(Debug, Serialize, Deserialize)]
struct Group {
    created_at: Timestamp,
    members: Members,
}

impl Snapshots {
    /// Ids begin with `snapshot-`, those of groups with `group-`; content is at the id, in the pool of its volume.
    pub const fn new(places: fn() -> Vec<Topology>) -> Self {
        Self {
            records: Collection::new("snapshot"),
            groups: Collection::new("group"),
            places,
        }
    }

    /// `CreateSnapshot`. `content` returns what is to be copied; it is called only if there is no snapshot of this name yet.
    pub fn create(
        &self,
        args: &CreateSnapshotArgs,
        content: impl FnOnce(&str) -> Result<Content, Error>,
    ) -> Result<Snapshot, Error> {
        let (id, source_volume) = (self.records.id(&args.name), &args.source_volume);
        let known = self.records.find(&id)?;
        if let Some(known) = &known {
            args.must_be_of(Some(&known.source_volume))?;
        }
        let record = match known {
            // Its copy is not made again, so this one is being deleted, or lost.
            Some(known) if known.is_ready && known.content.pool.stat(&id)?.is_none() => {
                return Err(Error::aborted(
                    "a snapshot of this name is half deleted, or its content is lost: delete it first",
                ));
            }
            Some(known) => known,
            None => {
                let new = Record {
                    source_volume: source_volume.clone(),
                    content: content(source_volume)?,
                    created_at: now(),
                    group: None,
                    is_ready: false,
                };
                self.remove_lost(&id, &new)?;
                self.records.create(&id, &new)?;
                new
            }
        };
        let record = self.settle(&id, record)?;
        Ok(self.show(id, record))
    }

    /// `GetSnapshot`.
    pub fn get(&self, id: &str) -> Result<Snapshot, Error> {
        let record = self.settle(id, self.records.get(id)?)?;
        Ok(self.show(id.to_owned(), record))
    }

    /// `DeleteSnapshot`; a member of a group is deleted only with the group: `invalid-argument`. A group that was not completed does not count.
    pub fn delete(&self, id: &str) -> Result<(), Error> {
        let Some(record) = self.records.find(id)? else {
            return Ok(());
        };
        let group = record.group.as_ref().map(|group| self.groups.find(group));
        match group.transpose()?.flatten() {
            None => self.discard(id, &record),
            Some(_) => Err(Error::invalid_argument(
                "the snapshot is in a group: delete the group",
            )),
        }
    }

    /// `ListSnapshots`.
    pub fn list(&self, args: &ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        let page = self.records.page(&args.page, |id, mut record| {
            let source = &record.source_volume;
            if args.source_volume.as_ref().is_some_and(|it| it != source) {
                return Ok(None);
            }
            record.is_ready = record.is_ready
                || record.group.is_none() && record.content.pool.stat(&id)?.is_some();
            Ok(Some(self.show(id, record)))
        });
        page.map(SnapshotPage::from)
    }

    /// The content source for a volume: `failed-precondition` while the snapshot is not ready.
    pub fn content(&self, id: &str) -> Result<Content, Error> {
        self.ready(id).map(|record| record.content)
    }

    /// `GetMetadataAllocated`; `invalid-argument` for a directory.
    pub fn allocated(&self, id: &str, offset: u64, max: u32) -> Result<MetadataPage, Error> {
        let content = self.ready_image(id)?.content;
        let extents = content.pool.allocated_extents(id, offset, at_most(max));
        Ok(MetadataPage::new(content.size_bytes, extents?))
    }

    /// `GetMetadataDelta`; `invalid-argument` for directories and for snapshots of different volumes.
    pub fn changed(
        &self,
        base: &str,
        target: &str,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, Error> {
        let (from, to) = (self.ready_image(base)?, self.ready_image(target)?);
        if from.source_volume != to.source_volume {
            return Err(Error::invalid_argument(
                "the snapshots are of different volumes: name two of one volume",
            ));
        }
        let Content {
            pool, size_bytes, ..
        } = to.content;
        let extents = pool.changed_extents(base, target, offset, at_most(max))?;
        Ok(MetadataPage::new(size_bytes, extents))
    }

    /// `CreateVolumeGroupSnapshot`, of images of one pool; `failed-precondition` for others.
    pub fn create_group(
        &self,
        name: &str,
        source_volumes: Vec<VolumeId>,
        content: impl Fn(&str) -> Result<Content, Error>,
    ) -> Result<GroupSnapshot, Error> {
        let id = self.groups.id(name);
        let member = |source: VolumeId| {
            // CSI allows no NUL in a name, so no other snapshot has this id.
            let member = self.records.id(&format!("{id}\0{source}"));
            (source, member)
        };
        let members: Members = source_volumes.into_iter().map(member).collect();
        if let Some(known) = self.groups.find(&id)? {
            if known.members != members {
                return Err(Error::already_exists(
                    "a group of this name is there, of other volumes: use another name",
                ));
            }
            for member in known.members.values() {
                let record = self.records.find(member)?.ok_or_else(half_deleted)?;
                if record.content.pool.stat(member)?.is_none() {
                    return Err(half_deleted());
                }
            }
            return self.show_group(id, known);
        }
        let copied = self.copy_members(&id, &members, content);
        let made = copied.and_then(|created_at| {
            let group = Group {
                created_at,
                members: members.clone(),
            };
            self.groups.create(&id, &group).map(|()| group)
        });
        if made.as_ref().is_err_and(|error| !error.is_uncertain()) {
            self.discard_members(&members)?;
        }
        self.show_group(id, made?)
    }

    /// `GetVolumeGroupSnapshot`; `aborted` for a group that is half deleted, since its members are still there.
    pub fn get_group(&self, id: &str, snapshots: &[SnapshotId]) -> Result<GroupSnapshot, Error> {
        let group = self.groups.get(id)?;
        group.must_hold(snapshots)?;
        self.show_group(id.to_owned(), group)
    }

    /// `DeleteVolumeGroupSnapshot`, with its members.
    pub fn delete_group(&self, id: &str, snapshots: &[SnapshotId]) -> Result<(), Error> {
        let Some(group) = self.groups.find(id)? else {
            return Ok(());
        };
        group.must_hold(snapshots)?;
        self.discard_members(&group.members)?;
        self.groups.delete(id)
    }

    /// Copies all members at one moment, and returns this time. Records are written first, as for other snapshots.
    fn copy_members(
        &self,
        group: &str,
        members: &Members,
        content: impl Fn(&str) -> Result<Content, Error>,
    ) -> Result<Timestamp, Error> {
        let created_at = now();
        let records = members.keys().map(|source| {
            Ok(Record {
                source_volume: source.clone(),
                content: content(source)?,
                created_at,
                group: Some(group.to_owned()),
                is_ready: false,
            })
        });
        let records: Vec<Record> = records.collect::<Result<_, Error>>()?;
        let Some(pool) = records.first().map(|first| &first.content.pool) else {
            return Err(Error::invalid_argument("a group is of one volume at least"));
        };
        let mut copies = Vec::new();
        for (member, Record { content, .. }) in members.values().zip(&records) {
            if content.pool != *pool || content.is_directory()? {
                return Err(Error::failed_precondition(
                    "only images of one pool can be taken at one moment: take a snapshot of each volume alone",
                ));
            }
            copies.push((content.path.clone(), member.clone()));
        }
        let mut moment = created_at;
        for (member, record) in members.values().zip(&records) {
            if self.records.find(member)?.is_none() {
                self.remove_lost(member, record)?;
            }
            // An earlier call may have made the copies before it ended: the earliest recorded time applies.
            moment = moment.min(self.records.change_any(member, |there| {
                Ok(there.get_or_insert_with(|| record.clone()).created_at)
            })?);
        }
        pool.clone_images(&copies)?;
        for member in members.values() {
            self.records.change(member, |there| {
                there.created_at = moment;
                there.is_ready = true;
                Ok(())
            })?;
        }
        Ok(moment)
    }

    fn discard_members(&self, members: &Members) -> Result<(), Error> {
        for member in members.values() {
            if let Some(record) = self.records.find(member)? {
                self.discard(member, &record)?;
            }
        }
        Ok(())
    }

    /// Checks the copy. If it failed, returns the error, and removes the record of the snapshot.
    fn settle(&self, id: &str, record: Record) -> Result<Record, Error> {
        // Members are copied together or not at all.
        if record.is_ready || record.group.is_some() {
            return Ok(record);
        }
        match record.content.pool.has_copied(&record.content.path, id) {
            Ok(is_ready) => {
                let settled = self.records.change(id, |there| {
                    // Another look-up may have seen the end of the copy meanwhile.
                    there.is_ready |= is_ready;
                    Ok(there.clone())
                });
                // Deleted meanwhile, since a look-up holds no claim against other calls: content that was copied after that belongs to no record.
                if matches!(&settled, Err(error) if error.code == Code::NotFound) {
                    record.content.pool.remove(id)?;
                }
                settled
            }
            Err(error) => {
                // A pool whose grant was removed may still hold it.
                if !error.is_uncertain() && record.content.pool.stat(id)?.is_none() {
                    self.records.delete(id)?;
                }
                Err(error)
            }
        }
    }

    fn ready(&self, id: &str) -> Result<Record, Error> {
        let mut record = self.settle(id, self.records.get(id)?)?;
        if !record.is_ready {
            return Err(Error::failed_precondition(
                "the snapshot is still being copied: wait until it is ready",
            ));
        }
        id.clone_into(&mut record.content.path);
        Ok(record)
    }

    fn ready_image(&self, id: &str) -> Result<Record, Error> {
        let mut record = self.ready(id)?;
        if record.content.is_directory()? {
            return Err(Error::invalid_argument(
                "the snapshot is a directory: only images have blocks",
            ));
        }
        // Larger than recorded if an expansion of the volume ended before it was recorded.
        let there = record.content.pool.stat(id)?;
        let bytes = &mut record.content.size_bytes;
        *bytes = there.map_or(0, |there| there.size_bytes).max(*bytes);
        Ok(record)
    }

    /// A copy without a record is outdated: the power may have failed before the record was on stable storage, or a look-up began the copy again
    /// while the snapshot was deleted.
    fn remove_lost(&self, id: &str, record: &Record) -> Result<(), Error> {
        record.content.pool.remove(id)
    }

    fn discard(&self, id: &str, record: &Record) -> Result<(), Error> {
        record.content.pool.remove(id)?;
        self.records.delete(id)
    }

    fn show(&self, id: SnapshotId, record: Record) -> Snapshot {
        let size_bytes = record.content.size_bytes;
        Snapshot {
            ready_to_use: record.is_ready,
            group_snapshot_id: record.group,
            accessible_topology: (self.places)(),
            ..Snapshot::new(id, record.source_volume, size_bytes, record.created_at)
        }
    }

    fn show_group(&self, id: String, group: Group) -> Result<GroupSnapshot, Error> {
        let member = |id: SnapshotId| {
            let record = self.records.find(&id)?.ok_or_else(half_deleted)?;
            Ok(self.show(id, record))
        };
        let snapshots = group.members.into_values().map(member);
        Ok(GroupSnapshot {
            id,
            snapshots: snapshots.collect::<Result<_, Error>>()?,
            created_at: group.created_at,
            ready_to_use: true,
        })
    }
}

impl Group {
    fn must_hold(&self, snapshots: &[SnapshotId]) -> Result<(), Error> {
        let is_member = |id| self.members.values().any(|member| member == id);
        if snapshots.iter().all(is_member) {
            return Ok(());
        }
        Err(Error::invalid_argument(
            "not all of the snapshots are in the group",
        ))
    }
}

/// CSI knows no code for a group without some of its members. NOT_FOUND would say that nothing is left to delete.
fn half_deleted() -> Error {
    Error::aborted("the group is half deleted, or content of it is lost: delete it first")
}

fn at_most(extents: u32) -> u32 {
    if extents == 0 { MOST_EXTENTS } else { extents }
}

#[cfg(test)]
mod tests;

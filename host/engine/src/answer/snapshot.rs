//! Checks answers about snapshots: single ones, groups, and metadata.

use super::{Checker, Invalid, bytes, page_length, same};
use crate::bindings::exported::{group_snapshots, snapshot_listing, snapshot_metadata};
use crate::bindings::types;
use crate::convert::Convert;
use std::collections::BTreeSet;
use wasmount_core::names::{GroupSnapshotId, SnapshotId, VolumeId};
use wasmount_core::snapshot::{Extent, GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::volume::{Page, PageRequest};

/// CSI's name of the id of a group.
const GROUP_ID: &str = "group_snapshot_id";

impl Checker {
    /// The answer to create-snapshot.
    pub(crate) fn snapshot_of(
        &self,
        snapshot: types::Snapshot,
        source: &VolumeId,
    ) -> Result<Snapshot, Invalid> {
        let snapshot = self.snapshot(snapshot)?;
        same("source_volume_id", &snapshot.source_volume, source)?;
        Ok(snapshot)
    }

    /// The answer to get-snapshot.
    pub(crate) fn snapshot_with(
        &self,
        snapshot: types::Snapshot,
        id: &SnapshotId,
    ) -> Result<Snapshot, Invalid> {
        let snapshot = self.snapshot(snapshot)?;
        same("snapshot_id", &snapshot.id, id)?;
        Ok(snapshot)
    }

    pub(crate) fn snapshots(
        &self,
        page: snapshot_listing::SnapshotPage,
        requested: &PageRequest,
    ) -> Result<Page<Snapshot>, Invalid> {
        let snapshot_listing::SnapshotPage {
            entries,
            next_token,
        } = page;
        self.page(entries, next_token, requested, Self::snapshot)
    }

    /// The answer to create-group-snapshot: one member for each source.
    pub(crate) fn group_of(
        &self,
        group: group_snapshots::GroupSnapshot,
        sources: &[VolumeId],
    ) -> Result<GroupSnapshot, Invalid> {
        let group = self.group(group)?;
        let members = group.snapshots.iter().map(|member| &member.source_volume);
        let members: BTreeSet<_> = members.collect();
        same(
            "the set of source volumes",
            &members,
            &sources.iter().collect(),
        )?;
        Ok(group)
    }

    /// The answer to get-group-snapshot.
    pub(crate) fn group_with(
        &self,
        group: group_snapshots::GroupSnapshot,
        id: &GroupSnapshotId,
    ) -> Result<GroupSnapshot, Invalid> {
        let group = self.group(group)?;
        same(GROUP_ID, &group.id, id)?;
        Ok(group)
    }

    /// Extents in ascending order, within the volume, at most as many as requested.
    pub(crate) fn metadata(
        &self,
        page: snapshot_metadata::MetadataPage,
        offset: u64,
        max: u32,
    ) -> Result<MetadataPage, Invalid> {
        let snapshot_metadata::MetadataPage {
            block_type,
            volume_capacity_bytes,
            extents,
            next_offset,
        } = page;
        let volume_capacity_bytes = bytes("volume_capacity_bytes", volume_capacity_bytes)?;
        page_length(extents.len(), Some(max))?;
        let mut end = 0;
        let extents = extents.into_iter().map(|extent| {
            let extent: Extent = extent.convert();
            let begins_late_enough = extent.offset_bytes >= end;
            end = extent.offset_bytes.saturating_add(extent.size_bytes);
            // The first may begin before the offset: it contains it (CSI, `starting_offset`).
            let ends_late_enough = extent.size_bytes != 0 && end > offset;
            if !begins_late_enough || !ends_late_enough || end > volume_capacity_bytes {
                return Err(Invalid::of_plugin(
                    "an extent is empty, overlaps the one before, ends before the requested offset, or ends past the end of the volume",
                ));
            }
            Ok(extent)
        });
        let extents = extents.collect::<Result<Vec<_>, _>>()?;
        if next_offset.is_some_and(|next| next <= offset || next > volume_capacity_bytes) {
            return Err(Invalid::of_plugin(
                "next_offset is not after the requested offset, or after the end of the volume",
            ));
        }
        Ok(MetadataPage {
            block_type: block_type.convert(),
            volume_capacity_bytes,
            extents,
            next_offset,
        })
    }

    fn snapshot(&self, snapshot: types::Snapshot) -> Result<Snapshot, Invalid> {
        let types::Snapshot {
            id,
            source_volume,
            size_bytes,
            created_at,
            ready_to_use,
            group_snapshot_id,
            accessible_topology,
        } = snapshot;
        self.without_secret("source_volume_id", &source_volume)?;
        let group = |id| self.id(GROUP_ID, id);
        Ok(Snapshot {
            id: self.id("snapshot_id", id)?,
            // The client sent it, and its ids may be longer than a plugin's.
            source_volume: VolumeId::parse("source_volume_id", source_volume)?,
            size_bytes: bytes("size_bytes", size_bytes)?,
            created_at,
            ready_to_use,
            group: group_snapshot_id.map(group).transpose()?,
            accessible_topology: self.topologies(accessible_topology)?,
        })
    }

    /// CSI: each member MUST name its group.
    fn group(&self, group: group_snapshots::GroupSnapshot) -> Result<GroupSnapshot, Invalid> {
        let group_snapshots::GroupSnapshot {
            id,
            snapshots,
            created_at,
            ready_to_use,
        } = group;
        let id: GroupSnapshotId = self.id(GROUP_ID, id)?;
        let snapshots = snapshots
            .into_iter()
            .map(|snapshot| self.snapshot(snapshot))
            .collect::<Result<Vec<_>, _>>()?;
        let all_belong = snapshots
            .iter()
            .all(|snapshot| snapshot.group.as_ref() == Some(&id));
        if !all_belong {
            return Err(Invalid::of_plugin(
                "a member does not name the group as its own",
            ));
        }
        Ok(GroupSnapshot {
            id,
            snapshots,
            created_at,
            ready_to_use,
        })
    }
}

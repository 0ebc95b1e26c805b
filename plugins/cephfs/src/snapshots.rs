//! Snapshots of subvolumes. Their names are Ceph's for each subvolume; a record makes a name that of one volume.
use crate::api::{SnapshotInfo, Subvolume};
use crate::class::{must_be_ours, prefixed};
use crate::{CephFs, Settings};
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

pub(crate) const SNAPSHOTS: state::Collection<Record, 1> = state::Collection::new("snapshot");
const PREFIX: &str = "csi-snap-";

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    id: String,
    volume: String,
    pub(crate) bytes: u64,
    created_at: Option<u64>, // none: still to be taken
}

/// The parameters of a VolumeSnapshotClass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Class {
    #[serde(rename = "clusterID")]
    cluster_id: Option<String>,
    snapshot_name_prefix: Option<String>,
}

/// The id of a snapshot: that of its volume, a slash, and its name.
pub(crate) struct SnapshotId {
    pub(crate) subvolume: Subvolume,
    pub(crate) name: String,
}

impl SnapshotId {
    /// `None`: no id of a snapshot.
    fn parse(id: &str) -> Result<Option<Self>, Error> {
        let Some((volume, name)) = id.rsplit_once('/') else {
            return Ok(None);
        };
        let subvolume = Subvolume::parse(volume)?.filter(|_| crate::api::is_name(name));
        Ok(subvolume.map(|subvolume| Self {
            subvolume,
            name: name.to_owned(),
        }))
    }

    /// Or `not-found`.
    pub(crate) fn known(id: &str) -> Result<Self, Error> {
        Self::parse(id)?.ok_or_else(|| Error::not_found("there is no snapshot of this id"))
    }
}

impl Snapshots for CephFs {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        let class: Class = args.parameters.read()?;
        must_be_ours(class.cluster_id.as_deref(), &Settings::read()?)?;
        let prefix = class.snapshot_name_prefix.as_deref();
        let name = prefixed("snapshotNamePrefix", prefix, PREFIX, &args.name)?;
        let subvolume = Subvolume::known(&args.source_volume)?;
        let key = SNAPSHOTS.id(&name);
        let mut record = SNAPSHOTS.change_any(&key, |known| {
            let record = match known.take() {
                Some(record) if record.volume == args.source_volume => record,
                Some(_) => {
                    let what = "a snapshot of another volume has this name";
                    return Err(Error::already_exists(what));
                }
                None => Record {
                    id: format!("{}/{name}", args.source_volume),
                    volume: args.source_volume.clone(),
                    bytes: subvolume.info()?.bytes(),
                    created_at: None,
                },
            };
            Ok(known.insert(record).clone())
        })?;
        if record.created_at.is_none() {
            subvolume.create_snapshot(&name)?;
        }
        let half_deleted =
            || Error::aborted("a snapshot of this name is half deleted: delete it again");
        let taken = subvolume.snapshot(&name)?.ok_or_else(half_deleted)?;
        let taken = taken.taken()?;
        record.created_at = Some(taken);
        SNAPSHOTS.change(&key, |known| {
            known.clone_from(&record);
            Ok(())
        })?;
        Ok(record.show(taken))
    }

    fn delete_snapshot(id: String) -> Result<(), Error> {
        // An id that this driver did not write is that of no snapshot.
        let Some(SnapshotId { subvolume, name }) = SnapshotId::parse(&id)? else {
            return Ok(());
        };
        subvolume.remove_snapshot(&name)?;
        SNAPSHOTS.delete(&SNAPSHOTS.id(&name))
    }

    fn get_snapshot(id: String) -> Result<Snapshot, Error> {
        let SnapshotId { subvolume, name } = SnapshotId::known(&id)?;
        let taken = subvolume.snapshot(&name)?.ok_or_else(absent)?.taken()?;
        Ok(SNAPSHOTS.get(&SNAPSHOTS.id(&name))?.show(taken))
    }
}

impl SnapshotListing for CephFs {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        let volume = args.source_volume.as_ref();
        let (entries, next) = SNAPSHOTS.page(&args.page, |_, known| {
            let taken = known
                .created_at
                .filter(|_| volume.is_none_or(|it| *it == known.volume));
            Ok(taken.map(|taken| known.show(taken)))
        })?;
        Ok((entries, next).into())
    }
}

impl Record {
    fn show(&self, taken: u64) -> Snapshot {
        Snapshot::new(&self.id, &self.volume, self.bytes, taken)
    }
}

impl SnapshotInfo {
    /// Ceph tells the local time of ceph-mgr, which is taken for UTC.
    fn taken(&self) -> Result<u64, Error> {
        let time = humantime::parse_rfc3339_weak(&self.created_at).ok();
        let nanoseconds = time.map(timestamp);
        nanoseconds.ok_or_else(|| Error::internal("the time of the snapshot is not ISO 8601"))
    }
}

fn absent() -> Error {
    Error::not_found("there is no snapshot of this id")
}

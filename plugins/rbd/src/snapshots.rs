//! Snapshots of images. Their names are Ceph's for each image; a record makes a name that of one volume.
use crate::api::{Image, SnapshotInfo, is_name};
use crate::class::must_be_ours;
use crate::{Rbd, Settings};
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

const SNAPSHOTS: state::Collection<Record, 1> = state::Collection::new("snapshot");
const PREFIX: &str = "csi-snap-";

#[derive(Clone, Serialize, Deserialize)]
struct Record {
    id: String,
    volume: String,
    taken: Option<Taken>, // none: still to be taken
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Taken {
    bytes: u64,
    at: u64, // nanoseconds since 1970
}

/// The parameters of a VolumeSnapshotClass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Class {
    #[serde(rename = "clusterID")]
    cluster_id: Option<String>,
    snapshot_name_prefix: Option<String>,
}

/// The id of a snapshot, as Ceph writes it: that of its volume, `@`, and its name.
pub(crate) struct SnapshotId {
    pub(crate) image: Image,
    pub(crate) name: String,
}

impl SnapshotId {
    /// `None`: no id of a snapshot.
    fn parse(id: &str) -> Result<Option<Self>, Error> {
        let Some((volume, name)) = id.rsplit_once('@').filter(|(_, name)| is_name(name)) else {
            return Ok(None);
        };
        let name = name.to_owned();
        Ok(Image::parse(volume)?.map(|image| Self { image, name }))
    }

    /// Or `not-found`.
    pub(crate) fn known(id: &str) -> Result<Self, Error> {
        Self::parse(id)?.ok_or_else(absent)
    }

    fn find(&self) -> Result<Option<Taken>, Error> {
        let found = self.image.find_snapshot(&self.name)?;
        found.as_ref().map(SnapshotInfo::taken).transpose()
    }
}

impl Snapshots for Rbd {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        let class: Class = args.parameters.read()?;
        must_be_ours(class.cluster_id.as_deref(), &Settings::read()?)?;
        let prefix = class.snapshot_name_prefix.as_deref().unwrap_or(PREFIX);
        if !is_name(prefix) {
            let what = "`snapshotNamePrefix` has letters, digits, `-`, `_` and `.` alone";
            return Err(Error::invalid_argument(what));
        }
        let snapshot = SnapshotId {
            image: Image::known(&args.source_volume)?,
            name: id::readable(prefix, &args.name),
        };
        let key = SNAPSHOTS.id(&snapshot.name);
        let mut record = SNAPSHOTS.change_any(&key, |known| {
            let record = match known.take() {
                Some(record) if record.volume == args.source_volume => record,
                Some(_) => {
                    let what = "a snapshot of another volume has this name";
                    return Err(Error::already_exists(what));
                }
                None => Record {
                    id: format!("{}@{}", args.source_volume, snapshot.name),
                    volume: args.source_volume.clone(),
                    taken: None,
                },
            };
            Ok(known.insert(record).clone())
        })?;
        snapshot.image.info()?;
        snapshot.image.create_snapshot(&snapshot.name)?;
        let taken = poll::until(&format!("snapshot `{}`", snapshot.name), || snapshot.find())?;
        record.taken = Some(taken);
        SNAPSHOTS.change(&key, |known| {
            known.clone_from(&record);
            Ok(())
        })?;
        Ok(record.show(taken))
    }

    fn delete_snapshot(id: String) -> Result<(), Error> {
        // An id that this driver did not write is that of no snapshot.
        let Some(SnapshotId { image, name }) = SnapshotId::parse(&id)? else {
            return Ok(());
        };
        image.remove_snapshot(&name)?;
        SNAPSHOTS.delete(&SNAPSHOTS.id(&name))
    }

    fn get_snapshot(id: String) -> Result<Snapshot, Error> {
        let snapshot = SnapshotId::known(&id)?;
        let taken = snapshot.find()?.ok_or_else(absent)?;
        Ok(SNAPSHOTS.get(&SNAPSHOTS.id(&snapshot.name))?.show(taken))
    }
}

impl SnapshotListing for Rbd {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        let volume = args.source_volume.as_ref();
        let (entries, next) = SNAPSHOTS.page(&args.page, |_, known| {
            let taken = known
                .taken
                .filter(|_| volume.is_none_or(|it| *it == known.volume));
            Ok(taken.map(|taken| known.show(taken)))
        })?;
        Ok((entries, next).into())
    }
}

impl Record {
    fn show(&self, taken: Taken) -> Snapshot {
        Snapshot::new(&self.id, &self.volume, taken.bytes, taken.at)
    }
}

impl SnapshotInfo {
    fn taken(&self) -> Result<Taken, Error> {
        let time = humantime::parse_rfc3339_weak(&self.timestamp).ok();
        let at = time.map(timestamp);
        let at = at.ok_or_else(|| Error::internal("the time of the snapshot is not ISO 8601"))?;
        Ok(Taken {
            bytes: self.size,
            at,
        })
    }
}

pub(crate) fn absent() -> Error {
    Error::not_found("there is no snapshot of this id")
}

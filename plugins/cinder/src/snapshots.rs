//! Snapshots, and backups in their place.
use crate::api::{BACKUP, CLUSTER, Kind, Object, SNAPSHOT, VOLUME, time};
use crate::volumes::{self, GIB, insert};
use crate::{Cinder, settings};
use serde::Deserialize;
use serde_json::{Value, json};
use wasmount_guest::*;

/// Begins the token of a page that has backups only; the id of the one before follows, if there was one.
const BACKUPS: &str = "backups:";

/// The parameters of a VolumeSnapshotClass.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Class {
    r#type: Type,
    availability: Option<String>, // of a backup
    // Known, since classes of cinder-csi-plugin have them; of no use here, where a volume in use always can have a snapshot, and calls are repeated.
    force_create: Option<String>,
    backup_max_duration_seconds_per_gb: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Type {
    #[default]
    Snapshot,
    Backup,
}

/// A snapshot or a backup.
#[derive(Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    object: Object,
    volume_id: String,
    size: u64,
    #[serde(default)]
    snapshot_id: Option<String>, // of a backup
    #[serde(default)]
    data_timestamp: Option<String>, // of a backup: when its snapshot was taken
    #[serde(default)]
    fail_reason: Option<String>,
}

impl Snapshots for Cinder {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        let class: Class = args.parameters.read()?;
        let cluster = settings()?.cluster;
        let volume = &args.source_volume;
        let body = || {
            let metadata = json!({ CLUSTER: cluster });
            json!({ "name": args.name, "volume_id": volume, "metadata": metadata })
        };
        let snapshot = || {
            made(SNAPSHOT, &args, || {
                VOLUME.get::<volumes::Record>(volume)?;
                Ok(body())
            })
        };
        if class.r#type == Type::Snapshot {
            return snapshot()?.show();
        }
        let mut taken = None;
        let backup = made(BACKUP, &args, || {
            let mut body = body();
            let id = taken.insert(snapshot()?.object.id);
            insert(&mut body, "snapshot_id", id);
            let zone = class.availability.iter();
            zone.for_each(|zone| insert(&mut body, "availability_zone", zone));
            Ok(body)
        });
        let backup = backup.map_err(|error| match &taken {
            Some(snapshot) if error.code == Code::ResourceExhausted => {
                SNAPSHOT.undo(snapshot).err().unwrap_or(error)
            }
            _ => error,
        })?;
        // The snapshot was for one moment, while the backup was copied.
        if let Some(snapshot) = &backup.snapshot_id {
            SNAPSHOT.remove(snapshot)?;
        }
        backup.show()
    }

    fn delete_snapshot(id: String) -> Result<(), Error> {
        if !SNAPSHOT.remove(&id)? {
            BACKUP.remove(&id)?;
        }
        Ok(())
    }

    fn get_snapshot(id: String) -> Result<Snapshot, Error> {
        match SNAPSHOT.find::<Record>(&id)? {
            Some(snapshot) => snapshot.show(),
            None => BACKUP.get::<Record>(&id)?.show(),
        }
    }
}

impl SnapshotListing for Cinder {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        let (mut page, volume) = (args.page, args.source_volume.as_deref());
        let token = page.starting_token.as_deref().unwrap_or_default();
        let (mut records, mut next) = (Vec::new(), None);
        page.starting_token = match token.strip_prefix(BACKUPS) {
            Some(last) => Some(last.to_owned()).filter(|it| !it.is_empty()),
            None => {
                (records, next) = SNAPSHOT.page::<Record>(&page, volume)?;
                None
            }
        };
        if next.is_none() {
            let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
            page.max_entries = page.max_entries.map(|it| it.saturating_sub(count));
            next = match page.max_entries {
                Some(0) => Some(BACKUPS.to_owned()),
                _ => {
                    let (backups, next) = BACKUP.page::<Record>(&page, volume)?;
                    records.extend(backups);
                    next.map(|last| format!("{BACKUPS}{last}"))
                }
            };
        }
        let entries: Result<Vec<_>, Error> = records.iter().map(Record::show).collect();
        Ok((entries?, next).into())
    }
}

impl Record {
    pub(crate) fn bytes(&self) -> u64 {
        self.size.saturating_mul(GIB)
    }

    fn show(&self) -> Result<Snapshot, Error> {
        let Object { id, status, .. } = &self.object;
        let taken = match &self.data_timestamp {
            Some(data) => time(data),
            None => self.object.created(),
        };
        let taken = taken.ok_or_else(|| Error::internal("Cinder's time is not ISO 8601"))?;
        let snapshot = Snapshot::new(id, &self.volume_id, self.bytes(), timestamp(taken));
        // A backup that a volume is being restored from is as complete as before.
        Ok(snapshot.ready(status == "available" || status == "restoring"))
    }
}

impl AsRef<Object> for Record {
    fn as_ref(&self) -> &Object {
        &self.object
    }
}

/// The snapshot or backup of a name, complete.
fn made(
    kind: Kind,
    args: &CreateSnapshotArgs,
    body: impl FnOnce() -> Result<Value, Error>,
) -> Result<Record, Error> {
    let record: Record = kind.create_once(&args.name, body)?;
    args.must_be_of(Some(&record.volume_id))?;
    let record: Record = kind.at_rest(&record.object.id)?;
    if record.object.is_failed() {
        kind.undo(&record.object.id)?;
        if let Some(snapshot) = &record.snapshot_id {
            // Its volume could not be deleted before. Cinder refuses if no service was there: then the snapshot still is in the state `backing-up`.
            let _ = SNAPSHOT.undo(snapshot);
        }
        let reason = record
            .fail_reason
            .unwrap_or_else(|| record.object.status.clone());
        return Err(Error::unavailable(format!(
            "Cinder could not take it: {reason}"
        )));
    }
    Ok(record)
}

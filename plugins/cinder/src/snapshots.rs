//! Snapshots, and backups in their place.
use crate::api::{BACKUP, CLUSTER, Kind, Object, SNAPSHOT, VOLUME};
use crate::volumes::{self, GIB, insert};
use crate::{Cinder, settings};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;
use wasmount_guest::*;

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
            made(SNAPSHOT, &args.name, volume, || {
                VOLUME.get::<volumes::Record>(volume)?;
                Ok(body())
            })
        };
        if class.r#type == Type::Snapshot {
            return snapshot()?.show();
        }
        let backup = made(BACKUP, &args.name, volume, || {
            let mut body = body();
            insert(&mut body, "snapshot_id", &snapshot()?.object.id);
            let zone = class.availability.iter();
            zone.for_each(|zone| insert(&mut body, "availability_zone", zone));
            Ok(body)
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
        let (records, next) = SNAPSHOT.page::<Record>(&args.page, args.source_volume.as_deref())?;
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
        let taken = self.object.created();
        let taken = taken.and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        let taken = taken.and_then(|it| u64::try_from(it.as_nanos()).ok());
        let taken = taken.ok_or_else(|| Error::internal("Cinder's time is not ISO 8601"))?;
        let mut snapshot = Snapshot::new(id, &self.volume_id, self.bytes(), taken);
        snapshot.ready_to_use = status == "available";
        Ok(snapshot)
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
    name: &str,
    volume: &str,
    body: impl FnOnce() -> Result<Value, Error>,
) -> Result<Record, Error> {
    let record: Record = kind.create_once(name, body)?;
    if record.volume_id != volume {
        return Err(Error::already_exists(
            "the name is that of another volume's snapshot",
        ));
    }
    let record: Record = kind.at_rest(&record.object.id)?;
    if record.object.is_failed() {
        kind.undo(&record.object.id)?;
        let reason = record
            .fail_reason
            .unwrap_or_else(|| record.object.status.clone());
        return Err(Error::unavailable(format!(
            "Cinder could not take it: {reason}"
        )));
    }
    Ok(record)
}

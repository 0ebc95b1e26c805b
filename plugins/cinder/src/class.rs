//! The parameters of a StorageClass, and what a new volume is made of.
use crate::api::{BACKUP, SNAPSHOT, VOLUME, send};
use crate::{Settings, snapshots, volumes};
use serde::Deserialize;
use serde_json::Value;
use wasmount_guest::*;

pub(crate) const ZONE: &str = "topology.cinder.csi.openstack.org/zone";

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Class {
    #[serde(rename = "type")]
    pub(crate) volume_type: Option<String>, // its name or its id
    pub(crate) availability: Option<String>,
}

/// The source of a new volume.
pub(crate) struct Source {
    /// What the request to Cinder calls it.
    pub(crate) field: &'static str,
    pub(crate) id: String,
    pub(crate) bytes: u64,
}

impl Class {
    /// The zone of a new volume; `None` lets Cinder choose.
    pub(crate) fn zone(
        &self,
        args: &CreateVolumeArgs,
        settings: &Settings,
    ) -> Result<Option<String>, Error> {
        match (
            &self.availability,
            settings.ignore_volume_az,
            &args.accessibility,
        ) {
            (Some(zone), true, _) => Ok(Some(zone.clone())),
            (Some(zone), false, _) => {
                args.must_be_at(&[Topology::of(ZONE, zone)])?;
                Ok(Some(zone.clone()))
            }
            (None, true, _) | (None, false, None) => Ok(None),
            (None, false, Some(requested)) => {
                let places = requested.preferred.iter().chain(&requested.requisite);
                let named: Vec<_> = places.filter_map(zone_of).collect();
                if named.is_empty() {
                    return Ok(None);
                }
                let zones = zones()?;
                let found = named
                    .into_iter()
                    .find(|it| zones.iter().any(|zone| zone == it));
                let missing = || Error::resource_exhausted("Cinder has none of the zones");
                found.map(|it| Some(it.to_owned())).ok_or_else(missing)
            }
        }
    }
}

impl Source {
    /// The source that a request names; it must be ready.
    pub(crate) fn of(content: &ContentSource) -> Result<Self, Error> {
        let id = content.id()?;
        let snapshot = match content {
            ContentSource::Snapshot(_) => SNAPSHOT.find::<snapshots::Record>(id)?,
            _ => None,
        };
        let (field, it, bytes) = match (content, snapshot) {
            (_, Some(it)) => ("snapshot_id", it.as_ref().clone(), it.bytes()),
            (ContentSource::Snapshot(_), None) => {
                let it: snapshots::Record = BACKUP.get(id)?;
                ("backup_id", it.as_ref().clone(), it.bytes())
            }
            _ => {
                let it: volumes::Record = VOLUME.get(id)?;
                ("source_volid", it.as_ref().clone(), it.bytes())
            }
        };
        match it.status.as_str() {
            "available" | "in-use" => Ok(Self {
                field,
                id: it.id,
                bytes,
            }),
            _ if it.is_failed() => Err(Error::failed_precondition(
                "the source is in an error state",
            )),
            status => Err(Error::aborted(format!(
                "the source is not ready: it is `{status}`"
            ))),
        }
    }
}

/// The zone of a place.
pub(crate) fn zone_of(place: &Topology) -> Option<&str> {
    place.segments.value(ZONE)
}

/// Zones in which Cinder creates volumes.
pub(crate) fn zones() -> Result<Vec<String>, Error> {
    let answer: Value = send(http::get("cinder", "/v3/os-availability-zone"))?.json()?;
    let zones = answer.get("availabilityZoneInfo").and_then(Value::as_array);
    let usable = |zone: &&Value| zone.pointer("/zoneState/available") == Some(&Value::Bool(true));
    let usable = zones.into_iter().flatten().filter(usable);
    let names = usable.filter_map(|zone| zone.get("zoneName")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

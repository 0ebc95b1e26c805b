//! Volumes.
use crate::api::{CLUSTER, Object, VOLUME, send};
use crate::class::{Class, Source, ZONE, zone_of, zones};
use crate::{Cinder, settings};
use serde::Deserialize;
use serde_json::{Value, json};
use wasmount_guest::*;

pub(crate) const GIB: u64 = 1 << 30; // Cinder's unit
/// Where no quota limits it: the most that CSI can say, in whole units.
const MOST_BYTES: u64 = (1 << 63) - GIB;

/// Cinder's metadata of a volume that it restored from a backup.
const SOURCE_BACKUP: &str = "src_backup_id";

/// Tags of external-provisioner (`--extra-create-metadata`) that a volume keeps as metadata.
const TAGS: [&str; 3] = [
    "csi.storage.k8s.io/pvc/name",
    "csi.storage.k8s.io/pvc/namespace",
    "csi.storage.k8s.io/pv/name",
];

#[derive(Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    object: Object,
    size: u64,
    availability_zone: Option<String>,
    volume_type: Option<String>,
    volume_type_id: Option<String>,
    snapshot_id: Option<String>,
    source_volid: Option<String>,
    #[serde(default)]
    pub(crate) multiattach: bool,
    #[serde(default)]
    pub(crate) attachments: Vec<Attachment>,
}

/// An attachment that is complete.
#[derive(Deserialize)]
pub(crate) struct Attachment {
    pub(crate) attachment_id: String,
    server_id: Option<String>,
    device: Option<String>,
}

impl Controller for Cinder {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let (settings, class) = (settings()?, args.parameters.read::<Class>()?);
        let range = args.capacity.in_blocks(GIB);
        let mut known = true;
        let record: Record = VOLUME.create_once(&args.name, || {
            known = false;
            let source = args.content_source.as_ref().map(Source::of).transpose()?;
            let bytes = range.choose_from(source.as_ref().map(|it| it.bytes), GIB, GIB)?;
            let mut metadata = json!({ CLUSTER: settings.cluster });
            let tags = TAGS.iter().filter_map(|tag| Some((*tag, args.parameters.value(tag)?)));
            tags.for_each(|(tag, value)| insert(&mut metadata, tag, value));
            let mut body = json!({
                "name": args.name, "size": bytes / GIB, "metadata": metadata, "volume_type": class.volume_type,
                "availability_zone": class.zone(&args, &settings)?,
            });
            source.iter().for_each(|it| insert(&mut body, it.field, &it.id));
            Ok(body)
        })
        .map_err(|error| missing(error, &class, args.content_source.as_ref()))?;
        if let Err(error) = record.check(&args.capabilities) {
            if !known {
                VOLUME.undo(&record.object.id)?;
            }
            return Err(error);
        }
        let created: Result<Record, Error> = VOLUME.at_rest(&record.object.id);
        let record = created.map_err(|error| match error.code {
            Code::NotFound => Error::aborted("the volume was deleted meanwhile: create it again"),
            _ => error,
        })?;
        if record.object.is_failed() {
            // Other states of failure are those of a volume that was complete before, with data.
            if known && record.object.status != "error" {
                return Err(VOLUME.stuck(&record.object));
            }
            let reason = reason(&record.object.id);
            VOLUME.undo(&record.object.id)?;
            let message = format!("Cinder could not create the volume: {reason}");
            return Err(Error::resource_exhausted(message));
        }
        if known {
            range.agree(Some(record.bytes()), GIB, GIB)?;
            record.must_be_as(&args, &class)?;
        }
        let places = args
            .accessibility
            .map(|it| it.preferred)
            .unwrap_or_default();
        Ok(record.show(settings.ignore_volume_az.then_some(places)))
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        VOLUME.remove(&id).map(drop)
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        let record: Record = VOLUME.get(&args.id)?;
        let class: Result<Class, Error> = args.parameters.read();
        let is_of = class.map(|class| class.volume_type.is_none_or(|it| record.is_of_type(&it)));
        match is_of {
            Ok(true) => Ok(record.check(&args.capabilities).into()),
            Ok(false) => Ok(Validation::unsupported("the volume is of another type")),
            Err(error) => Ok(Validation::unsupported(error.message)),
        }
    }
}

impl ControllerExpand for Cinder {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let record: Record = VOLUME.at_rest(&args.id)?;
        let bytes = args.capacity.in_blocks(GIB).grown(record.bytes())?;
        if bytes > record.bytes() {
            let action = json!({ "os-extend": { "new_size": bytes / GIB } });
            VOLUME.act(&record.object, &action)?;
            let grown: Record = VOLUME.at_rest(&args.id)?;
            if grown.bytes() < bytes {
                return Err(Error::unavailable(format!(
                    "the volume did not grow: {}",
                    reason(&args.id)
                )));
            }
        }
        Ok(Expanded::to(bytes).then_on_node(true))
    }
}

impl VolumeListing for Cinder {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let places = settings()?.ignore_volume_az.then(Vec::new);
        let (records, next) = VOLUME.page::<Record>(&page, None)?;
        let entries = records.into_iter().map(|it| it.entry(places.clone()));
        Ok((entries, next).into())
    }
}

impl VolumeLookup for Cinder {
    fn get_volume(id: String) -> Result<VolumeEntry, Error> {
        let places = settings()?.ignore_volume_az.then(Vec::new);
        Ok(VOLUME.get::<Record>(&id)?.entry(places))
    }
}

impl Capacity for Cinder {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let zone = args.accessible_topology.as_ref().and_then(zone_of);
        let is_here = match zone.filter(|_| !settings().is_ok_and(|it| it.ignore_volume_az)) {
            Some(zone) => zones()?.iter().any(|it| it == zone),
            None => true,
        };
        if !is_here || args.parameters.read::<Class>().is_err() {
            return Ok(Available::bytes(0));
        }
        let limits: Value = send(http::get("cinder", "/v3/limits"))?.json()?;
        let bytes = match left(&limits, "maxTotalVolumes", "totalVolumesUsed") {
            0 => 0,
            _ => left(&limits, "maxTotalVolumeGigabytes", "totalGigabytesUsed").saturating_mul(GIB),
        };
        Ok(Available::bytes(bytes.min(MOST_BYTES)).at_least(GIB))
    }
}

impl Record {
    pub(crate) fn bytes(&self) -> u64 {
        self.size.saturating_mul(GIB)
    }

    /// Rejects what the volume cannot do: a file system on it is for one node that writes.
    pub(crate) fn check(&self, capabilities: &[VolumeCapability]) -> Result<(), Error> {
        for one in capabilities {
            match (&one.access_type, one.access_mode) {
                (_, mode) if mode.is_single_node() => (),
                (AccessType::Mount(_), mode) if mode != AccessMode::MultiNodeReaderOnly => {
                    one.must_be_on_one_node()?;
                }
                _ if self.multiattach => (),
                _ => {
                    return Err(Error::invalid_argument(
                        "the volume is for one node: use a type with `multiattach`",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The node of each attachment.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.attachments.iter().filter_map(Attachment::node)
    }

    fn must_be_as(&self, args: &CreateVolumeArgs, class: &Class) -> Result<(), Error> {
        let is_of_type = class
            .volume_type
            .as_ref()
            .is_none_or(|it| self.is_of_type(it));
        let is_there = class.availability.is_none() || class.availability == self.availability_zone;
        if is_of_type && is_there && self.content_source() == args.content_source {
            return Ok(());
        }
        Err(Error::already_exists(
            "another volume has this name: it is of another type, zone or source",
        ))
    }

    fn is_of_type(&self, name_or_id: &str) -> bool {
        let own = [&self.volume_type, &self.volume_type_id];
        own.into_iter().flatten().any(|it| it == name_or_id)
    }

    fn content_source(&self) -> Option<ContentSource> {
        match (&self.snapshot_id, &self.source_volid) {
            (Some(id), _) => Some(ContentSource::Snapshot(id.clone())),
            (None, Some(id)) => Some(ContentSource::Volume(id.clone())),
            (None, None) => {
                let backup = self.object.tag(SOURCE_BACKUP);
                backup.cloned().map(ContentSource::Snapshot)
            }
        }
    }

    /// `places`: instead of the volume's zone.
    fn show(self, places: Option<Vec<Topology>>) -> Volume {
        let volume = Volume::new(&self.object.id, self.bytes());
        let mut volume = volume.copied_from(self.content_source());
        let zone = self.availability_zone.map(|zone| Topology::of(ZONE, zone));
        volume.accessible_topology = places.unwrap_or_else(|| zone.into_iter().collect());
        volume
    }

    fn entry(self, places: Option<Vec<Topology>>) -> VolumeEntry {
        let nodes: Vec<_> = self.nodes().map(str::to_owned).collect();
        VolumeEntry::new(self.show(places)).published_to(nodes)
    }
}

impl Attachment {
    /// An instance, or what [`crate::attach`] named.
    pub(crate) fn node(&self) -> Option<&str> {
        self.server_id.as_deref().or(self.device.as_deref())
    }
}

impl AsRef<Object> for Record {
    fn as_ref(&self) -> &Object {
        &self.object
    }
}

/// What the 404 of a creation means: the source is gone or, if it is there, the type is unknown.
fn missing(error: Error, class: &Class, source: Option<&ContentSource>) -> Error {
    if error.code != Code::NotFound {
        return error;
    }
    match (&class.volume_type, source.map(Source::of).transpose()) {
        (_, Err(source)) => source,
        (Some(name), Ok(_)) => Error::invalid_argument(format!(
            "Cinder has no volume type `{name}`: {}",
            error.message
        )),
        (None, Ok(_)) => error,
    }
}

/// Adds a field to an object.
pub(crate) fn insert(object: &mut Value, field: &str, value: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value.into());
    }
}

/// What a quota leaves; -1 is no quota.
fn left(limits: &Value, most: &str, used: &str) -> u64 {
    let number = |name| {
        limits
            .pointer(&format!("/limits/absolute/{name}"))?
            .as_i64()
    };
    match number(most) {
        Some(most @ 0..) => u64::try_from(most - number(used).unwrap_or(0)).unwrap_or(0),
        _ => u64::MAX,
    }
}

/// Why Cinder failed, as far as it tells a user.
fn reason(id: &str) -> String {
    let request = http::get("cinder", "/v3/messages").query("resource_uuid", id);
    let messages = send(request).and_then(|it| it.json::<Value>());
    let message = messages
        .unwrap_or_default()
        .pointer("/messages/0/user_message")
        .cloned();
    match message {
        Some(Value::String(message)) => message,
        _ => "its administrator finds the reason in its log".to_owned(),
    }
}

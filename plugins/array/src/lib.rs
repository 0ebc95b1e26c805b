//! A CSI driver for a storage array with a REST API. The array is the only memory: each call looks there first, so one that was cut, or whose answer
//! was lost, is completed by its retry. Who logs in, where the array is and what is repeated is the host's (`grants.network` of the document).
use serde::Deserialize;
use serde_json::{Value, json};
use wasmount_guest::*;

const ARRAY: &str = "array"; // the grant
const HOSTS: &str = "/api/hosts";
const VOLUMES: &str = "/api/volumes";
const SNAPSHOTS: &str = "/api/snapshots";
const MINIMUM_BYTES: u64 = 1 << 20;
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size
const DISK_WAIT_MS: u32 = 10_000; // of a login to a volume that is attached: enough for a busy array

/// A volume or a snapshot of the array. No two volumes, and no two snapshots, have one name.
#[derive(Deserialize)]
struct Object {
    id: String,
    bytes: u64,
    state: String,
    source: Option<String>,   // a volume's snapshot, a snapshot's volume
    created: u64,             // seconds
    hosts: Vec<String>,       // that it is attached to
    connection: Option<Disk>, // for the host that asked
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    protocol: DiskProtocol,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Object>,
    next: Option<String>,
}

struct Array;
export! {
    identity: Array, controller: Array, controller_publish: Array, controller_expand: Array, volume_listing: Array, capacity: Array,
    snapshots: Array, snapshot_listing: Array, node_stage: Array, node_register: Array,
}

impl Identity for Array {
    fn get_plugin_info() -> PluginInfo {
        let info = PluginInfo::new("array.wasmount.io", env!("CARGO_PKG_VERSION"));
        info.with_features(&["clone-volume", "publish-readonly", "published-nodes"])
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        call::settings().read::<Settings>().map(|_| Vec::new())
    }
}

impl Controller for Array {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        check(&args.capabilities, &args.parameters)?;
        args.mutable_parameters.only(&[])?;
        let (range, source) = (args.capacity, args.source_id()?);
        let volume = match find(VOLUMES, &args.name)? {
            Some(known) if known.source.as_deref() != source => {
                return Err(Error::already_exists("the name has another source"));
            }
            Some(known) => {
                range.agree(Some(known.bytes), MINIMUM_BYTES, DEFAULT_BYTES)?;
                known
            }
            None => {
                let (kind, field) = match args.content_source {
                    Some(ContentSource::Volume(_)) => (VOLUMES, "volume"),
                    _ => (SNAPSHOTS, "snapshot"),
                };
                let source_bytes = source.map(|id| Ok(get(kind, id)?.bytes)).transpose()?;
                let bytes = range.choose_from(source_bytes, MINIMUM_BYTES, DEFAULT_BYTES)?;
                let new = json!({ "name": args.name, "bytes": bytes, field: source });
                create(VOLUMES, &new)?
            }
        };
        let made = ready(volume)?;
        Ok(Volume::new(made.id, made.bytes).copied_from(args.content_source))
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        http::delete(ARRAY, VOLUMES).segment(&id).send_deletion()
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        get(VOLUMES, &args.id)?;
        let checked = check(&args.capabilities, &args.parameters);
        Ok(checked.and(args.mutable_parameters.only(&[])).into())
    }
}

impl ControllerPublish for Array {
    fn controller_publish_volume(args: ControllerPublishArgs) -> Result<Attributes, Error> {
        check(std::slice::from_ref(&args.capability), &Vec::new())?;
        let hosts = http::put(ARRAY, VOLUMES).segment(&args.id).segment("hosts");
        let mode = json!({ "readonly": args.readonly, "shared": !args.capability.access_mode.is_single_node() });
        let attach = hosts.segment(&args.node).json(&mode).idempotent();
        let volume: Object = attach.load_as(&[(423, Code::FailedPrecondition)])?;
        let mut context = vec![("bytes".to_owned(), volume.bytes.to_string())];
        context.extend(volume.connection.map(|it| it.into_pair(args.readonly)));
        Ok(context)
    }

    fn controller_unpublish_volume(id: String, node: Option<String>) -> Result<(), Error> {
        let hosts = http::delete(ARRAY, VOLUMES).segment(&id).segment("hosts");
        let attached = node.iter().fold(hosts, |hosts, node| hosts.segment(node));
        attached.send_deletion()
    }
}

impl ControllerExpand for Array {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let known = get(VOLUMES, &args.id)?;
        let bytes = args.capacity.grown(known.bytes)?;
        if bytes > known.bytes {
            let volume = http::patch(ARRAY, VOLUMES).segment(&args.id);
            let larger = volume.json(&json!({ "bytes": bytes })).idempotent();
            larger.load::<Object>()?;
        }
        let protocol = call::settings().read::<Settings>()?.protocol;
        Ok(Expanded::to(bytes).then_on_node(protocol != DiskProtocol::None))
    }
}

impl VolumeListing for Array {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let list = http::get(ARRAY, VOLUMES).page(&page, "limit", "marker");
        let Page { items, next } = list.load()?;
        let entry =
            |it: Object| VolumeEntry::new(Volume::new(it.id, it.bytes)).published_to(it.hosts);
        Ok((items.into_iter().map(entry), next).into())
    }
}

impl Capacity for Array {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let usable = check(&args.capabilities, &args.parameters).is_ok();
        let free: Value = http::get(ARRAY, "/api/capacity").load()?;
        let bytes = free.get("free").and_then(Value::as_u64).filter(|_| usable);
        Ok(Available::bytes(bytes.unwrap_or(0)).at_least(MINIMUM_BYTES))
    }
}

impl Snapshots for Array {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        args.parameters.only(&[])?;
        let new = json!({ "name": args.name, "volume": args.source_volume });
        let snapshot = find(SNAPSHOTS, &args.name)?.map_or_else(|| create(SNAPSHOTS, &new), Ok)?;
        args.must_be_of(snapshot.source.as_deref())?;
        Ok(show(snapshot))
    }

    fn delete_snapshot(id: String) -> Result<(), Error> {
        http::delete(ARRAY, SNAPSHOTS).segment(&id).send_deletion()
    }

    fn get_snapshot(id: String) -> Result<Snapshot, Error> {
        get(SNAPSHOTS, &id).map(show)
    }
}

impl SnapshotListing for Array {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        let list = http::get(ARRAY, SNAPSHOTS).query_some("volume", args.source_volume);
        let Page { items, next } = list.page(&args.page, "limit", "marker").load()?;
        Ok((items.into_iter().map(show), next).into())
    }
}

impl NodeStage for Array {
    /// The disk that the array shows to this node; in memory if the array has no data path.
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        match Disk::of(&args.publish_context)? {
            Some(disk) => plan.disk(&disk, 1, DISK_WAIT_MS),
            None => plan.tmpfs(args.publish_context.bytes("bytes")?),
        }
    }
}

/// Nodes are hosts of the array before volumes are attached to them, so that an attachment is one request: if it is refused, nothing has changed.
impl NodeRegister for Array {
    /// The array refuses the initiator of another host.
    fn register_node(node: String) -> Result<(), Error> {
        let protocol = call::settings().read::<Settings>()?.protocol;
        let host = http::put(ARRAY, HOSTS).segment(&node);
        let host = host.json(&protocol.initiator(&node)?);
        host.idempotent().send()?.must_succeed().map(drop)
    }

    fn unregister_node(node: String) -> Result<(), Error> {
        http::delete(ARRAY, HOSTS).segment(&node).send_deletion()
    }
}

fn check(capabilities: &[VolumeCapability], parameters: &Attributes) -> Result<(), Error> {
    parameters.only(&[])?;
    let mut each = capabilities.iter();
    each.try_for_each(VolumeCapability::must_be_block_or_on_one_node)
}

fn get(kind: &str, id: &str) -> Result<Object, Error> {
    http::get(ARRAY, kind).segment(id).load()
}

fn find(kind: &str, name: &str) -> Result<Option<Object>, Error> {
    let page: Page = http::get(ARRAY, kind).query("name", name).load()?;
    Ok(page.items.into_iter().next())
}

/// If another call took the name since the look, the retry finds its object.
fn create(kind: &str, new: &Value) -> Result<Object, Error> {
    let request = http::post(ARRAY, kind).json(new);
    request.load_as(&[(409, Code::Aborted)])
}

/// Waits for a job of the array; if it takes longer than this call may, the next one waits on.
fn ready(volume: Object) -> Result<Object, Error> {
    let (id, mut seen) = (volume.id.clone(), Some(volume));
    poll::until(&format!("volume `{id}`"), || {
        let volume = seen.take().map_or_else(|| get(VOLUMES, &id), Ok)?;
        if volume.state == "error" {
            // It can only be deleted, and has the name that the next call needs.
            let failed = http::delete(ARRAY, VOLUMES).segment(&id);
            failed.undo().send_deletion()?;
            return Err(Error::unavailable(format!("`{id}` could not be made")));
        }
        Ok((volume.state == "ready").then_some(volume))
    })
}

fn show(it: Object) -> Snapshot {
    let time = it.created.saturating_mul(1_000_000_000);
    Snapshot::new(it.id, it.source.unwrap_or_default(), it.bytes, time).ready(it.state == "ready")
}

#[cfg(test)]
mod tests;

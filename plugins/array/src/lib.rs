//! A CSI driver for a storage array with a REST API. The array is the only memory: each call looks there first, so one that was cut, or whose answer
//! was lost, is completed by its retry. Who logs in, where the array is and what is repeated is the host's (`grants.network` of the document).
use serde::Deserialize;
use serde_json::{Value, json};
use wasmount_guest::secrets::Scope;
use wasmount_guest::*;

const ARRAY: &str = "array"; // the grant
const HOSTS: &str = "/api/hosts";
const VOLUMES: &str = "/api/volumes";
const SNAPSHOTS: &str = "/api/snapshots";
const MINIMUM_BYTES: u64 = 1 << 20;
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size
const DISK_WAIT_MS: u32 = 10_000; // of a login to a volume that is attached: enough for a busy array
const CHAP: [&str; 2] = ["chap-user", "chap-password"]; // secrets of the document, if nodes have a password

/// A volume or a snapshot of the array. No two volumes, and no two snapshots, have one name.
#[derive(Deserialize)]
struct Object {
    id: String,
    bytes: u64,
    state: String,
    source: Option<String>,    // a volume's snapshot, a snapshot's volume
    created: u64,              // seconds
    hosts: Vec<String>,        // that it is attached to
    connection: Option<Value>, // for the host that asked: a `Connection`
}

/// How a node reaches an attached volume.
#[derive(Deserialize)]
struct Connection {
    protocol: Protocol,
    portals: Vec<String>,
    target: String,
    lun: u16,
    wwid: String,
}

/// The data path of the array.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Protocol {
    Iscsi,
    NvmeTcp,
    None, // volumes are in memory
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    protocol: Protocol,
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
        let source = args.content_source.as_ref();
        let id = source.map(ContentSource::id).transpose()?;
        let (path, field) = match source {
            Some(ContentSource::Volume(_)) => (VOLUMES, "volume"),
            _ => (SNAPSHOTS, "snapshot"),
        };
        let known = find(VOLUMES, &args.name)?;
        if known.as_ref().is_some_and(|it| it.source.as_deref() != id) {
            return Err(Error::already_exists("the name has another source"));
        }
        let (range, known_bytes) = (args.capacity, known.as_ref().map(|it| it.bytes));
        range.agree(known_bytes, MINIMUM_BYTES, DEFAULT_BYTES)?;
        let volume = match known {
            Some(known) => known,
            None => {
                let source = id.map(|id| get(path, id)).transpose()?;
                let source_bytes = source.map(|it| it.bytes);
                let bytes = range.choose_from(source_bytes, MINIMUM_BYTES, DEFAULT_BYTES)?;
                let new = json!({ "name": args.name, "bytes": bytes, field: id });
                create(VOLUMES, &new)?
            }
        };
        let made = ready(volume)?;
        let mut volume = Volume::new(made.id, made.bytes);
        volume.content_source = args.content_source;
        Ok(volume)
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        let volume = http::delete(ARRAY, VOLUMES).segment(&id);
        volume.idempotent().send()?.deleted()
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        get(VOLUMES, &args.id)?;
        Ok(check(&args.capabilities, &args.parameters).into())
    }
}

impl ControllerPublish for Array {
    fn controller_publish_volume(args: ControllerPublishArgs) -> Result<Attributes, Error> {
        check(std::slice::from_ref(&args.capability), &Vec::new())?;
        let hosts = http::put(ARRAY, VOLUMES).segment(&args.id).segment("hosts");
        let shared = !args.capability.access_mode.is_single_node();
        let mode = json!({ "readonly": args.readonly, "shared": shared });
        let answer = hosts.segment(&args.node).json(&mode).idempotent().send()?;
        let elsewhere = (423, Code::FailedPrecondition);
        let volume: Object = answer.must_succeed_as(&[elsewhere])?.json()?;
        let mut context = vec![("bytes".to_owned(), volume.bytes.to_string())];
        let connection = volume.connection.map(|it| it.to_string());
        context.extend(connection.map(|it| ("connection".to_owned(), it)));
        Ok(context)
    }

    fn controller_unpublish_volume(id: String, node: Option<String>) -> Result<(), Error> {
        let hosts = http::delete(ARRAY, VOLUMES).segment(&id).segment("hosts");
        let attached = node.iter().fold(hosts, |hosts, node| hosts.segment(node));
        attached.idempotent().send()?.deleted()
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
        Ok(Expanded::to(bytes))
    }
}

impl VolumeListing for Array {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let Page { items, next } = list(VOLUMES, page, None)?;
        let entry =
            |it: Object| VolumeEntry::new(Volume::new(it.id, it.bytes)).published_to(it.hosts);
        Ok((items.into_iter().map(entry).collect::<Vec<_>>(), next).into())
    }
}

impl Capacity for Array {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        if check(&args.capabilities, &args.parameters).is_err() {
            return Ok(Available::bytes(0));
        }
        let free: Value = http::get(ARRAY, "/api/capacity").load()?;
        let bytes = free.get("free").and_then(Value::as_u64).unwrap_or(0);
        Ok(Available::bytes(bytes).at_least(MINIMUM_BYTES))
    }
}

impl Snapshots for Array {
    fn create_snapshot(args: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        args.parameters.only(&[])?;
        let new = json!({ "name": args.name, "volume": args.source_volume });
        let known = find(SNAPSHOTS, &args.name)?;
        let snapshot = known.map_or_else(|| create(SNAPSHOTS, &new), Ok)?;
        if snapshot.source.as_ref() != Some(&args.source_volume) {
            return Err(Error::already_exists("the name has another source"));
        }
        Ok(snapshot.into())
    }

    fn delete_snapshot(id: String) -> Result<(), Error> {
        let snapshot = http::delete(ARRAY, SNAPSHOTS).segment(&id);
        snapshot.idempotent().send()?.deleted()
    }

    fn get_snapshot(id: String) -> Result<Snapshot, Error> {
        get(SNAPSHOTS, &id).map(Snapshot::from)
    }
}

impl SnapshotListing for Array {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        let Page { items, next } = list(SNAPSHOTS, args.page, args.source_volume)?;
        let snapshots: Vec<_> = items.into_iter().map(Snapshot::from).collect();
        Ok((snapshots, next).into())
    }
}

impl NodeStage for Array {
    /// The disk that the array shows to this node; in memory if the array has no data path.
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        let Some(connection) = args.publish_context.value("connection") else {
            return plan.tmpfs(args.publish_context.bytes("bytes")?);
        };
        let read = serde_json::from_str(connection);
        let at: Connection = read.map_err(|error| Error::internal(error.to_string()))?;
        if matches!(at.protocol, Protocol::NvmeTcp) {
            let portals: Vec<_> = at.portals.iter().map(String::as_str).collect();
            plan.nvme(&portals, &at.target, &at.wwid, 1, DISK_WAIT_MS)?;
            return plan.default_fs_type("ext4");
        }
        let path = |portal| IscsiPath {
            portal,
            target: at.target.clone(),
            lun: at.lun,
        };
        let paths: Vec<_> = at.portals.into_iter().map(path).collect();
        plan.iscsi(&paths, &at.wwid, 1, DISK_WAIT_MS)?;
        let [user, password] = CHAP;
        if secrets::names(Scope::Backend).iter().any(|it| it == user) {
            plan.chap(Scope::Backend, user, password)?;
        }
        plan.default_fs_type("ext4")
    }
}

/// Nodes are hosts of the array before volumes are attached to them, so that an attachment is one request: if it is refused, nothing has changed.
impl NodeRegister for Array {
    /// The array refuses the initiator of another host.
    fn register_node(node: String) -> Result<(), Error> {
        let none = || Error::failed_precondition("no initiator: install open-iscsi or nvme-cli");
        let known_as = match call::settings().read::<Settings>()?.protocol {
            Protocol::Iscsi => json!({ "iqn": nodes::iqn(&node)?.ok_or_else(none)? }),
            Protocol::NvmeTcp => json!({ "nqn": nodes::nqn(&node)?.ok_or_else(none)? }),
            Protocol::None => json!({}),
        };
        let host = http::put(ARRAY, HOSTS).segment(&node);
        let answer = host.json(&known_as).idempotent().send()?;
        answer.must_succeed().map(drop)
    }

    fn unregister_node(node: String) -> Result<(), Error> {
        let host = http::delete(ARRAY, HOSTS).segment(&node);
        host.idempotent().send()?.deleted()
    }
}

fn check(capabilities: &[VolumeCapability], parameters: &Attributes) -> Result<(), Error> {
    parameters.only(&[])?;
    let mut mounts = capabilities.iter().filter(|it| it.is_mount());
    mounts.try_for_each(VolumeCapability::must_be_on_one_node)
}

fn get(kind: &str, id: &str) -> Result<Object, Error> {
    http::get(ARRAY, kind).segment(id).load()
}

fn find(kind: &str, name: &str) -> Result<Option<Object>, Error> {
    let page: Page = http::get(ARRAY, kind).query("name", name).load()?;
    Ok(page.items.into_iter().next())
}

fn list(kind: &str, page: PageRequest, volume: Option<String>) -> Result<Page, Error> {
    let request = http::get(ARRAY, kind).query_some("volume", volume);
    let request = request.query_some("limit", page.max_entries);
    request.query_some("marker", page.starting_token).load()
}

/// If another call took the name since the look, the retry finds its object.
fn create(kind: &str, new: &Value) -> Result<Object, Error> {
    let answer = http::post(ARRAY, kind).json(new).send()?;
    answer.must_succeed_as(&[(409, Code::Aborted)])?.json()
}

/// Waits for a job of the array; if it takes longer than this call may, the next one waits on.
fn ready(volume: Object) -> Result<Object, Error> {
    let (id, mut seen) = (volume.id.clone(), Some(volume));
    poll::until(&format!("volume `{id}`"), || {
        let volume = seen.take().map_or_else(|| get(VOLUMES, &id), Ok)?;
        match volume.state.as_str() {
            "error" => Err(Error::internal(format!("the array could not make `{id}`"))),
            state => Ok((state == "ready").then_some(volume)),
        }
    })
}

impl From<Object> for Snapshot {
    fn from(object: Object) -> Self {
        let (source, created) = (object.source.unwrap_or_default(), object.created);
        let nanoseconds = created.saturating_mul(1_000_000_000);
        let mut snapshot = Snapshot::new(object.id, source, object.bytes, nanoseconds);
        snapshot.ready_to_use = object.state == "ready";
        snapshot
    }
}

#[cfg(test)]
mod tests;

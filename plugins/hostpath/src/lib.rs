//! A CSI driver whose volumes are images or directories of a pool that the administrator grants as `volumes`, with clones, snapshots and
//! growth. What a volume holds lies in the pool under its id, which is made of its name. A record under the same id is written last and
//! removed last, so a call that dies half-way is completed by its retry.
//!
//! The parameter `kind` is `image` (a block device, or any file system on one; the default), `node-grown-image` (one that gets more space
//! when the node grows it, not before) or `directory`.
mod content;
mod listing;
mod record;
mod snapshots;

use content::POOL;
use record::{Kind, Record, SNAPSHOT, VOLUME};
use wasmount_guest::*;

const BLOCK_BYTES: u64 = 4 << 10; // a block device is made of whole pages
const MINIMUM_BYTES: u64 = 1 << 20; // a file system takes some for itself
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size
const FS_TYPE: &str = "ext4"; // for a claim that names none

struct Hostpath;
export! {
    identity: Hostpath, controller: Hostpath, controller_expand: Hostpath, capacity: Hostpath, volume_listing: Hostpath,
    volume_lookup: Hostpath, snapshots: Hostpath, snapshot_listing: Hostpath, node_stage: Hostpath,
}

impl Identity for Hostpath {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("hostpath.wasmount.io", env!("CARGO_PKG_VERSION"))
            .with_feature("clone-volume")
            .with_feature("single-node-multi-writer")
    }
}

impl Controller for Hostpath {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let kind = kind(&args.parameters)?.unwrap_or(Kind::Image);
        args.mutable_parameters.only(&[])?;
        check(kind, &args.capabilities)?;
        let source = args.content_source.map(source_id).transpose()?;
        let range = whole_blocks(&args.capacity);
        let id = id::from_name(VOLUME, &args.name);
        if let Some(known) = state::get::<Record>(&id)? {
            let known = known.value;
            if (known.kind, &known.source) != (kind, &source) {
                return Err(Error::already_exists(
                    "a volume of this name is there of another kind or with another source: use another name",
                ));
            }
            range.agree(Some(known.size_bytes), MINIMUM_BYTES, DEFAULT_BYTES)?;
            return Ok(known.into_volume(id));
        }
        let size_bytes = match &source {
            None => range.choose(MINIMUM_BYTES, DEFAULT_BYTES)?,
            Some(source) => {
                let from = state::require::<Record>(source)?.value;
                from.must_be(kind)?;
                range.choose(from.size_bytes, from.size_bytes)?
            }
        };
        let record = Record::new(kind, size_bytes, source);
        content::keep(&id, &record, || match &record.source {
            None => content::create(kind, &id, size_bytes),
            Some(source) => {
                content::copy(kind, source, &id)?;
                content::resize(kind, &id, size_bytes)
            }
        })?;
        Ok(record.into_volume(id))
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        content::delete(VOLUME, &id)
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        let known = record::existing(VOLUME, &args.id)?.value;
        let checked = kind(&args.parameters)
            .and_then(|kind| known.must_be(kind.unwrap_or(known.kind)))
            .and_then(|()| check(known.kind, &args.capabilities));
        Ok(checked.into())
    }
}

impl ControllerExpand for Hostpath {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let known = record::existing(VOLUME, &args.id)?;
        let (kind, size_bytes) = (known.value.kind, known.value.size_bytes);
        let size_bytes = whole_blocks(&args.capacity).grown(size_bytes)?;
        if kind != Kind::NodeGrownImage {
            content::resize(kind, &args.id, size_bytes)?;
        }
        let grown = Record {
            size_bytes,
            ..known.value
        };
        state::update(&args.id, &grown, known.revision)?;
        Ok(Expanded {
            capacity_bytes: size_bytes,
            node_expansion_required: kind != Kind::Directory,
        })
    }
}

impl Capacity for Hostpath {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let kind = kind(&args.parameters).map(|kind| kind.unwrap_or(Kind::Image));
        let usable = kind
            .and_then(|kind| check(kind, &args.capabilities))
            .is_ok();
        let available = POOL.capacity()?.available_bytes;
        Ok(Available::bytes(if usable { available } else { 0 }))
    }
}

impl NodeStage for Hostpath {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        id::must_be_from_name(VOLUME, &args.id)?;
        // The records are the controller's: the pool tells what it is.
        match POOL.stat(&args.id)?.map(|entry| entry.kind) {
            Some(pool::Kind::Image) => {
                plan.image(&POOL, &args.id)?;
                plan.default_fs_type(FS_TYPE)
            }
            Some(pool::Kind::Directory) => plan.directory(&POOL, &args.id),
            _ => Err(Error::not_found(
                "this node's pool does not hold the volume",
            )),
        }
    }
}

/// What a StorageClass asks for, if it says so.
fn kind(parameters: &Attributes) -> Result<Option<Kind>, Error> {
    parameters.only(&["kind"])?;
    let known = |word| {
        Kind::parse(word).ok_or_else(|| {
            Error::invalid_argument("`kind` is `image`, `node-grown-image` or `directory`")
        })
    };
    parameters.value("kind").map(known).transpose()
}

/// A directory is no block device, and either is on one node at a time.
fn check(kind: Kind, capabilities: &[VolumeCapability]) -> Result<(), Error> {
    capabilities.iter().try_for_each(|one| {
        if kind == Kind::Directory || !one.is_block() {
            one.must_be_mount()?;
        }
        one.must_be_on_one_node()
    })
}

fn source_id(source: ContentSource) -> Result<String, Error> {
    let (prefix, id) = match source {
        ContentSource::Snapshot(id) => (SNAPSHOT, id),
        ContentSource::Volume(id) => (VOLUME, id),
        ContentSource::Other(_) => {
            return Err(Error::invalid_argument(
                "a volume begins empty, from a snapshot or from a volume",
            ));
        }
    };
    id::must_be_from_name(prefix, &id)?;
    Ok(id)
}

/// The same range in whole blocks: sizes that are chosen from it are.
fn whole_blocks(range: &CapacityRange) -> CapacityRange {
    let up = |bytes: u64| bytes.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(bytes);
    CapacityRange {
        required_bytes: range.required_bytes.map(up),
        limit_bytes: range.limit_bytes.map(|bytes| bytes - bytes % BLOCK_BYTES),
    }
}

#[cfg(test)]
mod tests;

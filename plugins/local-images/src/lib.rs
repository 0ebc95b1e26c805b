//! A CSI driver whose volumes are images in a pool of their node: with ext4, xfs or btrfs on them, or as raw block devices. An image is its own
//! record, under an id that is derived from the volume's name: creating and removing one is a single step, and there is no other state to lose. It is
//! expanded on the node alone (`node-only-expansion`), where kubelet calls the host and not this plugin.
use serde::Deserialize;
use std::num::NonZeroU64;
use wasmount_guest::*;

const IMAGES: Pool = Pool::named("images");
const PREFIX: &str = "image";
/// The key of the node's topology label.
const NODE: &str = "topology.local-images.wasmount.io/node";
const FS_TYPE: &str = "ext4"; // where the claim's class names none
const BLOCK_BYTES: u64 = 4 << 10; // file systems and devices are made of whole pages
const MINIMUM_BYTES: u64 = 1 << 20; // a file system takes some for itself
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size
const LUKS_HEADER_BYTES: u64 = 16 << 20; // what encryption takes for itself
const LUKS_KEY: &str = "luksKey"; // the passphrase, in the node-stage Secret of the StorageClass

struct LocalImages;
export! { identity: LocalImages, controller: LocalImages, capacity: LocalImages, node_info: LocalImages, node_stage: LocalImages }

/// The settings of the administrator.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Settings {
    max_volumes_per_node: Option<NonZeroU64>,
}

/// The parameters of a StorageClass, and the volume context.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Class {
    encrypted: bool,
}

impl Identity for LocalImages {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("local-images.wasmount.io", env!("CARGO_PKG_VERSION")).with_features(&[
            "topology",
            "node-only-expansion",
            "single-node-multi-writer",
        ])
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        most_volumes().map(|_| Vec::new())
    }
}

impl Controller for LocalImages {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        args.must_be_at(&here())?;
        let minimum = check(&args.capabilities, &args.parameters)?;
        args.mutable_parameters.only(&[])?;
        args.must_start_empty()?;
        let id = id::from_name(PREFIX, &args.name);
        let known = IMAGES.stat(&id)?.map(|image| image.size_bytes);
        let range = args.capacity.in_blocks(BLOCK_BYTES);
        let size = range.agree(known, minimum, DEFAULT_BYTES)?;
        IMAGES.create_image(&id, size)?;
        let mut volume = Volume::new(id, size);
        volume.context = args.parameters;
        volume.accessible_topology = here();
        Ok(volume)
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        if id::is_from_name(PREFIX, &id) {
            IMAGES.remove_image(&id)?;
        }
        Ok(())
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        id::must_be_from_name(PREFIX, &args.id)?;
        let missing = || Error::not_found("this node has no such volume");
        let image = IMAGES.stat(&args.id)?.ok_or_else(missing)?;
        let mutable = args.mutable_parameters.only(&[]);
        let checked = mutable.and(check(&args.capabilities, &args.parameters));
        Ok(match checked {
            Ok(minimum) if image.size_bytes < minimum => {
                Validation::unsupported("the volume is too small for that file system")
            }
            checked => checked.map(drop).into(),
        })
    }
}

impl Capacity for LocalImages {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let checked = check(&args.capabilities, &args.parameters);
        match checked.and_then(|minimum| args.must_be_at(&here()).map(|()| minimum)) {
            Ok(minimum) => {
                let available = IMAGES.capacity()?.available_bytes;
                Ok(Available::bytes(available - available % BLOCK_BYTES).at_least(minimum))
            }
            Err(_) => Ok(Available::bytes(0)),
        }
    }
}

impl NodeInfo for LocalImages {
    fn get_node_info() -> Result<NodeDescription, Error> {
        Ok(NodeDescription {
            id: None,
            max_volumes: most_volumes()?,
            topology: here().pop(),
        })
    }
}

impl NodeStage for LocalImages {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        id::must_be_from_name(PREFIX, &args.id)?;
        plan.image(&IMAGES, &args.id)?;
        if args.volume_context.read::<Class>()?.encrypted {
            plan.luks(secrets::Scope::Request, LUKS_KEY)?;
        }
        plan.default_fs_type(FS_TYPE)
    }
}

/// The topology of its volumes.
fn here() -> Vec<Topology> {
    Topology::of_this_node(NODE)
}

fn most_volumes() -> Result<Option<u64>, Error> {
    let settings: Settings = call::settings().read()?;
    Ok(settings.max_volumes_per_node.map(NonZeroU64::get))
}

/// Rejects capabilities that an image of one node cannot have, and returns the smallest size in bytes.
fn check(capabilities: &[VolumeCapability], parameters: &Attributes) -> Result<u64, Error> {
    let class: Class = parameters.read()?;
    let mut minimum = MINIMUM_BYTES;
    for one in capabilities {
        one.must_be_on_one_node()?;
        minimum = minimum.max(one.smallest_image(FS_TYPE)?);
    }
    Ok(match class.encrypted {
        true => minimum + LUKS_HEADER_BYTES,
        false => minimum,
    })
}

#[cfg(test)]
mod tests;

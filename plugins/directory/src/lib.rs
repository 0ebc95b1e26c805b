//! A CSI driver whose volumes are directories of one pool, which the administrator grants under the name `volumes`.
//!
//! A volume's id is made of its name, its directory is called like the id, and its size is a record under the id. The record is written
//! last and removed last, and every step may be repeated: a call that dies half-way is completed by its retry.
#![forbid(unsafe_code)]

use wasmount_guest::*;

const VOLUMES: Pool = Pool::named("volumes");
const ID_PREFIX: &str = "directory";
/// Smallest volume, in bytes: one block of a file system.
const MINIMUM_BYTES: u64 = 4 << 10;
/// Size of a volume whose claim names none, in bytes.
const DEFAULT_BYTES: u64 = 1 << 30;
/// Mode of a volume: pods run as any user, and only they reach it.
const ANY_USER: u32 = 0o777;

struct Directory;
export! { identity: Directory, controller: Directory, controller_expand: Directory, capacity: Directory, node_stage: Directory }

impl Identity for Directory {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("directory.wasmount.io", env!("CARGO_PKG_VERSION"))
            .with_feature("single-node-multi-writer")
    }
}

impl Controller for Directory {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        check(&args.capabilities, &args.parameters)?;
        args.mutable_parameters.only(&[])?;
        args.must_start_empty()?;
        let id = id::from_name(ID_PREFIX, &args.name);
        let known = state::get::<u64>(&id)?.map(|record| record.value);
        let size = match known {
            Some(size) if args.capacity.contains(size) => size,
            Some(size) => return Err(Error::already_exists(format!("{id} has {size} bytes"))),
            None => args.capacity.choose(MINIMUM_BYTES, DEFAULT_BYTES)?,
        };
        VOLUMES.create_directory(&id)?;
        let promised = VOLUMES.set_quota(&id, Some(size));
        if promised.is_err() && known.is_none() {
            VOLUMES.remove_directory(&id)?;
        }
        promised?;
        VOLUMES.set_permissions(&id, ANY_USER, None, None)?;
        state::create(&id, &size)?;
        Ok(Volume::new(id, size))
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        if id::is_from_name(ID_PREFIX, &id) {
            VOLUMES.remove_directory(&id)?;
            state::delete(&id)?;
        }
        Ok(())
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        state::require::<u64>(&args.id)?;
        Ok(check(&args.capabilities, &args.parameters).into())
    }
}

impl ControllerExpand for Directory {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let record = state::require::<u64>(&args.id)?;
        let size = args.capacity.grown(record.value)?;
        VOLUMES.set_quota(&args.id, Some(size))?;
        state::update(&args.id, &size, record.revision)?;
        Ok(Expanded::to(size))
    }
}

impl Capacity for Directory {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        match check(&args.capabilities, &args.parameters) {
            Ok(()) => Ok(Available::bytes(VOLUMES.capacity()?.available_bytes)),
            Err(_) => Ok(Available::bytes(0)),
        }
    }
}

impl NodeStage for Directory {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        id::must_be_from_name(ID_PREFIX, &args.id)?;
        plan.directory(&VOLUMES, &args.id)
    }
}

/// A directory is no block device, is on one node at a time, and has nothing to choose.
fn check(capabilities: &[VolumeCapability], parameters: &Attributes) -> Result<(), Error> {
    parameters.only(&[])?;
    for capability in capabilities {
        capability.must_be_mount()?;
        capability.must_be_on_one_node()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! A CSI driver whose volumes are directories of a pool that the administrator grants as `volumes`. An id is made of the volume's name, its
//! size is a record under the id, written last and removed last: a call that dies half-way is completed by its retry.
use wasmount_guest::*;
const VOLUMES: Pool = Pool::named("volumes");
const PREFIX: &str = "directory";
const MINIMUM_BYTES: u64 = 4 << 10; // one block of a file system
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size

struct Directory;
export! { identity: Directory, controller: Directory, controller_expand: Directory, capacity: Directory, node_stage: Directory }

impl Identity for Directory {
    fn get_plugin_info() -> PluginInfo {
        let info = PluginInfo::new("directory.wasmount.io", env!("CARGO_PKG_VERSION"));
        info.with_feature("single-node-multi-writer")
    }
}

impl Controller for Directory {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        check(&args.capabilities, &args.parameters)?;
        args.mutable_parameters.only(&[])?;
        args.must_start_empty()?;
        let id = id::from_name(PREFIX, &args.name);
        let known = state::get(&id)?.map(|record| record.value);
        let size = args.capacity.agree(known, MINIMUM_BYTES, DEFAULT_BYTES)?;
        VOLUMES.create_directory_of(&id, size)?;
        state::create(&id, &size)?;
        Ok(Volume::new(id, size))
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        if id::is_from_name(PREFIX, &id) {
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
        let record = state::require(&args.id)?;
        let size = args.capacity.grown(record.value)?;
        VOLUMES.set_quota(&args.id, Some(size))?;
        state::update(&args.id, &size, record.revision)?;
        Ok(Expanded::to(size))
    }
}

impl Capacity for Directory {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let usable = check(&args.capabilities, &args.parameters).is_ok();
        let available = VOLUMES.capacity()?.available_bytes;
        Ok(Available::bytes(if usable { available } else { 0 }))
    }
}

impl NodeStage for Directory {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        id::must_be_from_name(PREFIX, &args.id)?;
        plan.directory(&VOLUMES, &args.id)
    }
}

/// A directory is no block device, is on one node at a time, and has nothing to choose.
fn check(capabilities: &[VolumeCapability], parameters: &Attributes) -> Result<(), Error> {
    parameters.only(&[])?;
    let check = |one: &VolumeCapability| one.must_be_mount().and(one.must_be_on_one_node());
    capabilities.iter().try_for_each(check)
}

#[cfg(test)]
mod tests;

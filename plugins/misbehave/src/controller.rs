//! Exports of the controller service. Volumes with an id that has a name after the behaviour are directories of the pool.

use crate::behaviour::{answers, begin, deletions, find, secrets, spoil};
use crate::{Misbehave, POOL, asked, asked_by, is_in_pool, setting};
use wasmount_guest::*;

/// Before the id of a registered node, in the key of its record.
pub const REGISTERED: &str = "registered/";

impl Controller for Misbehave {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let behaviour = asked(&args.parameters);
        begin(&behaviour)?;
        if is_in_pool(&args.name) {
            POOL.create_directory(&args.name)?;
        }
        let volume = Volume::new(args.name, args.capacity.required_bytes.unwrap_or(1 << 30));
        let volume = volume.copied_from(args.content_source);
        let volume = spoil(secrets::VOLUMES, &behaviour, volume);
        Ok(spoil(answers::VOLUMES, &behaviour, volume))
    }

    fn delete_volume(id: VolumeId) -> Result<(), Error> {
        begin(asked_by(&id))?;
        match find(deletions::DELETIONS, asked_by(&id)) {
            Some(delete) => delete(&id),
            None if is_in_pool(&id) => POOL.remove_directory(&id),
            None => Ok(()),
        }
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        begin(&asked(&args.context))?;
        Ok(Validation::Confirmed)
    }
}

impl ControllerPublish for Misbehave {
    fn controller_publish_volume(args: ControllerPublishArgs) -> Result<Attributes, Error> {
        let behaviour = asked(&args.context);
        begin(&behaviour)?;
        Ok(spoil(answers::CONTEXTS, &behaviour, Attributes::new()))
    }

    fn controller_unpublish_volume(id: VolumeId, _: Option<NodeId>) -> Result<(), Error> {
        begin(asked_by(&id))
    }
}

impl ControllerExpand for Misbehave {
    /// An id that is a number is the size that the answer states.
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        begin(asked_by(&args.id))?;
        let wanted = args.capacity.required_bytes.unwrap_or_default();
        Ok(Expanded::to(args.id.parse().unwrap_or(wanted)))
    }
}

impl ControllerModify for Misbehave {
    fn modify_volume(_: VolumeId, mutable_parameters: Attributes) -> Result<(), Error> {
        begin(&asked(&mutable_parameters))
    }
}

impl VolumeListing for Misbehave {
    /// The token is the number of entries to return.
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let behaviour = setting("list-volumes");
        begin(&behaviour)?;
        let token = page.starting_token.unwrap_or_default();
        let count: usize = token.parse().unwrap_or(0);
        let entry = |number: usize| VolumeEntry::new(Volume::new(format!("volume-{number}"), 1));
        let page = VolumePage::from(((0..count).map(entry), None));
        Ok(spoil(answers::PAGES, &behaviour, page))
    }
}

impl VolumeLookup for Misbehave {
    fn get_volume(id: VolumeId) -> Result<VolumeEntry, Error> {
        let behaviour = asked_by(&id).to_owned();
        begin(&behaviour)?;
        let volume = Volume::new(id, 1 << 30);
        Ok(VolumeEntry::new(spoil(
            answers::VOLUMES,
            &behaviour,
            volume,
        )))
    }
}

impl Capacity for Misbehave {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let behaviour = asked(&args.parameters);
        begin(&behaviour)?;
        Ok(spoil(
            answers::CAPACITIES,
            &behaviour,
            Available::bytes(1 << 40),
        ))
    }
}

/// Only with the setting `register-node`, since the host calls these by itself. `record` keeps the registered nodes with their initiators.
impl NodeRegister for Misbehave {
    fn register_node(node: NodeId) -> Result<(), Error> {
        match setting("register-node").as_str() {
            "" => Ok(()),
            "record" => {
                let iqn = nodes::iqn(&node)?.unwrap_or_default();
                let key = format!("{REGISTERED}{node}");
                state::put(&key, &iqn, state::Expect::Any).map(drop)
            }
            behaviour => begin(behaviour),
        }
    }

    fn unregister_node(node: NodeId) -> Result<(), Error> {
        state::delete(&format!("{REGISTERED}{node}"))
    }
}

impl VolumeHealth for Misbehave {
    fn get_volume_health(id: VolumeId) -> Result<Vec<Health>, Error> {
        begin(asked_by(&id))?;
        Ok(spoil(answers::HEALTHS, asked_by(&id), Vec::new()))
    }
}

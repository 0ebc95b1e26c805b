//! The services of the controller.
use crate::AllInterfaces;
use crate::volumes::{POOL, Record, VOLUMES};
use std::time::Duration;
use wasmount_guest::secrets::{Scope, Secret};
use wasmount_guest::*;

const MINIMUM_BYTES: u64 = 1 << 20;
const DEFAULT_BYTES: u64 = 1 << 30;
const CAPACITY_BYTES: u64 = 1 << 40;

/// The key of the session with the storage system, and how long a login lasts.
const SESSION: &str = "system";
const LOGIN: Duration = Duration::from_secs(60);

/// The secret of the document that is sealed for each volume.
const KEY: &str = "key";

/// The facts of a node that an attachment answers.
const FACTS: [&str; 3] = ["iqn", "nqn", "addresses"];

impl Controller for AllInterfaces {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let id = VOLUMES.id(&args.name);
        let bytes = args.capacity.choose(MINIMUM_BYTES, DEFAULT_BYTES)?;
        let sealed = sealed_secrets::seal(&id, &secrets::require(Scope::Backend, KEY)?)?;
        match args.parameters.value("source") {
            Some("directory") => POOL.create_directory(&id)?,
            Some("image") => POOL.create_image(&id, bytes)?,
            _ => (),
        }
        let mut context = args.parameters;
        context.push(("logins".to_owned(), logins()?.to_string()));
        context.push(("sealed".to_owned(), sealed));
        let record = Record {
            bytes,
            source: args.content_source,
            context,
            class: args.mutable_parameters,
            nodes: Vec::new(),
        };
        VOLUMES.put(&id, &record)?;
        Ok(record.show(id))
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        POOL.remove(&id)?;
        VOLUMES.delete(&id)
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        VOLUMES.get(&args.id)?;
        let mut each = args.capabilities.iter();
        let check = each.try_for_each(VolumeCapability::must_be_block_or_on_one_node);
        Ok(check.into())
    }
}

impl ControllerPublish for AllInterfaces {
    fn controller_publish_volume(args: ControllerPublishArgs) -> Result<Attributes, Error> {
        let fact = |name: &str| {
            let values = nodes::facts(&args.node, name)?;
            Ok((name.to_owned(), values.join(" ")))
        };
        let mut context: Attributes = FACTS.into_iter().map(fact).collect::<Result<_, Error>>()?;
        context.push(("readonly".to_owned(), args.readonly.to_string()));
        VOLUMES.change(&args.id, |it| {
            it.nodes = vec![args.node.clone()];
            Ok(())
        })?;
        Ok(context)
    }

    fn controller_unpublish_volume(id: String, node: Option<NodeId>) -> Result<(), Error> {
        VOLUMES.change(&id, |it| {
            let is_meant = |it: &NodeId| node.as_ref().is_none_or(|node| node == it);
            it.nodes.retain(|it| !is_meant(it));
            Ok(())
        })
    }
}

impl ControllerExpand for AllInterfaces {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let bytes = VOLUMES.change(&args.id, |it| {
            it.bytes = args.capacity.grown(it.bytes)?;
            Ok(it.bytes)
        })?;
        Ok(Expanded::to(bytes).then_on_node(true))
    }
}

impl ControllerModify for AllInterfaces {
    fn modify_volume(id: String, class: Attributes) -> Result<(), Error> {
        VOLUMES.change(&id, |it| {
            it.class.clone_from(&class);
            Ok(())
        })
    }
}

impl VolumeListing for AllInterfaces {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let page = VOLUMES.page(&page, |id, it| Ok(Some(it.entry(id))))?;
        Ok(page.into())
    }
}

impl VolumeLookup for AllInterfaces {
    fn get_volume(id: String) -> Result<VolumeEntry, Error> {
        Ok(VOLUMES.get(&id)?.entry(id))
    }
}

impl Capacity for AllInterfaces {
    fn get_capacity(_: CapacityArgs) -> Result<Available, Error> {
        Ok(Available::bytes(CAPACITY_BYTES).at_least(MINIMUM_BYTES))
    }
}

impl VolumeHealth for AllInterfaces {
    fn get_volume_health(id: String) -> Result<Vec<Health>, Error> {
        VOLUMES.get(&id)?;
        let message = "one of two copies is missing";
        let health = Health::new(HealthStatus::Degraded, "CopyMissing", message);
        Ok(vec![health])
    }
}

impl NodeRegister for AllInterfaces {
    fn register_node(node: String) -> Result<(), Error> {
        let iqn = nodes::iqn(&node)?.unwrap_or_default();
        log::info("registered", &[("node", &node), ("iqn", &iqn)]);
        Ok(())
    }

    fn unregister_node(node: String) -> Result<(), Error> {
        log::info("unregistered", &[("node", &node)]);
        Ok(())
    }
}

/// Logs in, finds the session, loses it and logs in again: how many logins that took.
fn logins() -> Result<u32, Error> {
    let mut logins = 0;
    let mut find = || {
        session::get(SESSION, || {
            logins += 1;
            let value = Secret::new(format!("token-{logins}"));
            Ok(session::Login {
                value,
                lasts: LOGIN,
            })
        })
    };
    let first = find()?;
    if find()? != first {
        return Err(Error::internal("the session was not kept"));
    }
    session::invalidate(SESSION, &first);
    find()?;
    Ok(logins)
}

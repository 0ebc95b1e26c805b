//! One type implements all nineteen services: each name that `export!` accepts belongs to the trait of the same service, and each trait can be
//! implemented with the types that the crate exports.
#![forbid(unsafe_code)]

use wasmount_guest::*;

struct Everything;

export! {
    identity: Everything,
    controller: Everything,
    controller_publish: Everything,
    controller_expand: Everything,
    controller_modify: Everything,
    volume_listing: Everything,
    volume_lookup: Everything,
    capacity: Everything,
    snapshots: Everything,
    snapshot_listing: Everything,
    group_snapshots: Everything,
    snapshot_metadata: Everything,
    volume_health: Everything,
    node_info: Everything,
    node_stage: Everything,
    node_publish: Everything,
    node_hooks: Everything,
    node_register: Everything,
    state_migration: Everything,
}

fn nothing<T>() -> Result<T, Error> {
    Err(Error::not_found("there is nothing here"))
}

impl Identity for Everything {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("everything.example.com", "1.0.0").with_feature("x-nothing")
    }
}

impl Controller for Everything {
    fn create_volume(_: CreateVolumeArgs) -> Result<Volume, Error> {
        nothing()
    }

    fn delete_volume(_: VolumeId) -> Result<(), Error> {
        nothing()
    }

    fn validate_volume_capabilities(_: ValidateArgs) -> Result<Validation, Error> {
        nothing()
    }
}

impl ControllerPublish for Everything {
    fn controller_publish_volume(_: ControllerPublishArgs) -> Result<Attributes, Error> {
        nothing()
    }

    fn controller_unpublish_volume(_: VolumeId, _: Option<NodeId>) -> Result<(), Error> {
        nothing()
    }
}

impl ControllerExpand for Everything {
    fn expand_volume(_: ExpandArgs) -> Result<Expanded, Error> {
        nothing()
    }
}

impl ControllerModify for Everything {
    fn modify_volume(_: VolumeId, _: Attributes) -> Result<(), Error> {
        nothing()
    }
}

impl VolumeListing for Everything {
    fn list_volumes(_: PageRequest) -> Result<VolumePage, Error> {
        nothing()
    }
}

impl VolumeLookup for Everything {
    fn get_volume(_: VolumeId) -> Result<VolumeEntry, Error> {
        nothing()
    }
}

impl Capacity for Everything {
    fn get_capacity(_: CapacityArgs) -> Result<Available, Error> {
        nothing()
    }
}

impl Snapshots for Everything {
    fn create_snapshot(_: CreateSnapshotArgs) -> Result<Snapshot, Error> {
        nothing()
    }

    fn delete_snapshot(_: SnapshotId) -> Result<(), Error> {
        nothing()
    }

    fn get_snapshot(_: SnapshotId) -> Result<Snapshot, Error> {
        nothing()
    }
}

impl SnapshotListing for Everything {
    fn list_snapshots(_: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        nothing()
    }
}

impl GroupSnapshots for Everything {
    fn create_group_snapshot(_: CreateGroupArgs) -> Result<GroupSnapshot, Error> {
        nothing()
    }

    fn delete_group_snapshot(_: String, _: Vec<SnapshotId>) -> Result<(), Error> {
        nothing()
    }

    fn get_group_snapshot(_: String, _: Vec<SnapshotId>) -> Result<GroupSnapshot, Error> {
        nothing()
    }
}

impl SnapshotMetadata for Everything {
    fn get_allocated(_: SnapshotId, _: u64, _: u32) -> Result<MetadataPage, Error> {
        nothing()
    }

    fn get_delta(_: SnapshotId, _: SnapshotId, _: u64, _: u32) -> Result<MetadataPage, Error> {
        nothing()
    }
}

impl VolumeHealth for Everything {
    fn get_volume_health(_: VolumeId) -> Result<Vec<Health>, Error> {
        nothing()
    }
}

impl NodeInfo for Everything {
    fn get_node_info() -> Result<NodeDescription, Error> {
        nothing()
    }
}

impl NodeStage for Everything {
    fn node_stage(_: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        plan.tmpfs(None)
    }
}

impl NodePublish for Everything {
    fn node_publish(_: NodePublishArgs, plan: &Plan) -> Result<(), Error> {
        plan.files(&[])
    }
}

impl NodeHooks for Everything {
    fn before_unstage(_: VolumeId, _: Attributes) -> Result<(), Error> {
        nothing()
    }
}

impl NodeRegister for Everything {
    fn register_node(_: NodeId) -> Result<(), Error> {
        nothing()
    }

    fn unregister_node(_: NodeId) -> Result<(), Error> {
        nothing()
    }
}

impl StateMigration for Everything {
    fn plan_migration(_: &str) -> Result<Migration, Error> {
        Ok(Migration::Unneeded)
    }

    fn migrate_records(_: &str, _: Vec<StoredRecord>) -> Result<Vec<RecordChange>, Error> {
        nothing()
    }
}

#[test]
fn a_backend_is_ready_and_content_unless_it_says_otherwise() {
    assert_eq!(Everything::probe(), Ok(true));
    assert_eq!(Everything::check_settings(), Ok(Vec::new()));
    assert_eq!(Everything::get_plugin_info().features, ["x-nothing"]);
}

//! The contract as the SDK has it, under the names that the engine gives to its own bindings: `convert` is the same source for both.

pub(crate) use wasmount_guest::bindings::imports::wasmount::csi as imported;
pub(crate) use wasmount_guest::bindings::imports::wasmount::csi::types;

/// Each exported interface.
pub(crate) mod exported {
    macro_rules! interfaces {
        ($($name:ident),+ $(,)?) => {
            $(pub(crate) use wasmount_guest::bindings::$name::interface as $name;)+
        };
    }

    interfaces! {
        capacity, controller, controller_expand, controller_publish, group_snapshots, node_info, node_publish, node_stage, snapshot_listing,
        snapshot_metadata, snapshots, state_migration, volume_health, volume_listing,
    }
}

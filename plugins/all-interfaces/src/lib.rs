//! A plugin that uses every interface of the contract, and answers what it was told there: as a golden guest it shows that a later host still serves each
//! one. The parameter `source` of a volume chooses its plan; snapshots are records alone.
#![forbid(unsafe_code)]

mod controller;
mod node;
mod snapshots;
mod volumes;

use wasmount_guest::*;

struct AllInterfaces;
export! {
    identity: AllInterfaces, controller: AllInterfaces, controller_publish: AllInterfaces, controller_expand: AllInterfaces,
    controller_modify: AllInterfaces, volume_listing: AllInterfaces, volume_lookup: AllInterfaces, capacity: AllInterfaces,
    snapshots: AllInterfaces, snapshot_listing: AllInterfaces, group_snapshots: AllInterfaces, snapshot_metadata: AllInterfaces,
    volume_health: AllInterfaces, node_info: AllInterfaces, node_stage: AllInterfaces, node_publish: AllInterfaces,
    node_hooks: AllInterfaces, node_register: AllInterfaces, state_migration: AllInterfaces,
}

impl Identity for AllInterfaces {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("all-interfaces.wasmount.io", env!("CARGO_PKG_VERSION")).with_features(&[
            "clone-volume",
            "publish-readonly",
            "published-nodes",
            "topology",
        ])
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        let warning = |(key, value)| format!("the setting `{key}` is `{value}`");
        Ok(call::settings().into_iter().map(warning).collect())
    }
}

impl StateMigration for AllInterfaces {
    fn plan_migration(_: &str) -> Result<Migration, Error> {
        Ok(Migration::Additive)
    }

    fn migrate_records(from: &str, page: Vec<StoredRecord>) -> Result<Vec<RecordChange>, Error> {
        let migrated = format!("{} records of {from}", page.len());
        Ok(vec![RecordChange::put("migrated", &migrated)])
    }
}

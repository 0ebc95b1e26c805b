//! A CSI driver whose volumes are images or directories of a pool, with all of CSI's services. The content of a volume is in the pool under the
//! volume's id, which is derived from its name. A record under the same id is written last and removed last: if a call is interrupted, its retry
//! completes it.
mod class;
mod node;
mod snapshots;
mod volumes;

use serde::Deserialize;
use std::num::NonZeroU64;
use wasmount_guest::*;

/// The backend; public for programs that link it as a library.
pub struct Hostpath;
export! {
    identity: Hostpath, controller: Hostpath, controller_publish: Hostpath, controller_expand: Hostpath, controller_modify: Hostpath,
    volume_listing: Hostpath, volume_lookup: Hostpath, capacity: Hostpath, snapshots: Hostpath, snapshot_listing: Hostpath,
    group_snapshots: Hostpath, snapshot_metadata: Hostpath, volume_health: Hostpath, node_info: Hostpath, node_stage: Hostpath,
    node_publish: Hostpath,
}

/// The settings of the administrator.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Settings {
    max_volumes_per_node: Option<NonZeroU64>,
}

impl Identity for Hostpath {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("hostpath.wasmount.io", env!("CARGO_PKG_VERSION"))
            .with_features(&["clone-volume", "publish-readonly", "published-nodes"])
            .with_features(&["single-node-multi-writer", "volume-mount-group"])
            .with_features(&["topology", "snapshot-topology"])
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        most_volumes().map(|_| Vec::new())
    }
}

/// The topology of its volumes.
fn here() -> Vec<Topology> {
    Topology::of_this_node("topology.hostpath.wasmount.io/node")
}

fn most_volumes() -> Result<Option<u64>, Error> {
    let settings: Settings = call::settings().read()?;
    Ok(settings.max_volumes_per_node.map(NonZeroU64::get))
}

#[cfg(test)]
mod tests;

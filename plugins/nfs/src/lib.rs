//! A CSI driver whose volumes are directories of an NFS share. The controller works on the share as a pool, which the host mounts; a node mounts the
//! directory of a volume from the server. Classes and volume ids are those of csi-driver-nfs, so volumes that it created are served as well.
mod class;
mod node;
mod share;
mod snapshots;
mod volume_id;
mod volumes;

use wasmount_guest::*;

struct Nfs;
export! {
    identity: Nfs, controller: Nfs, controller_expand: Nfs, volume_listing: Nfs, volume_lookup: Nfs, capacity: Nfs,
    snapshots: Nfs, snapshot_listing: Nfs, node_stage: Nfs,
}

impl Identity for Nfs {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("nfs.wasmount.io", env!("CARGO_PKG_VERSION"))
            .with_features(&["clone-volume", "single-node-multi-writer"])
    }

    /// The pools are not accessed here: a node has none.
    fn check_settings() -> Result<Vec<String>, Error> {
        share::Settings::read()?.check()
    }
}

#[cfg(test)]
mod tests;

//! A CSI driver whose volumes are subvolumes of CephFS, with the classes of ceph-csi. The controller speaks with ceph-mgr's REST API; a node mounts the
//! path of a subvolume with the kernel's client.
mod api;
mod class;
mod client;
mod node;
mod snapshots;
mod volumes;

use serde::Deserialize;
use wasmount_guest::*;

struct CephFs;
export! {
    identity: CephFs, controller: CephFs, controller_expand: CephFs, volume_listing: CephFs, volume_lookup: CephFs, capacity: CephFs,
    snapshots: CephFs, snapshot_listing: CephFs, node_stage: CephFs,
}

/// The settings of the administrator.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Settings {
    #[serde(rename = "clusterID")]
    cluster_id: Option<String>, // none: classes may name any
    monitors: String,         // as mount.ceph(8) has them: with commas
    subvolume_groups: String, // with commas; the first is that of classes that name none
    user: String,             // of the key in the document
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_id: None,
            monitors: String::new(),
            subvolume_groups: "csi".to_owned(), // as ceph-csi has it
            user: "kubernetes".to_owned(),
        }
    }
}

impl Settings {
    fn read() -> Result<Self, Error> {
        let settings: Self = call::settings().read()?;
        if settings.monitors.is_empty() {
            let what = "the setting `monitors` is missing: name the monitors, such as `10.0.0.1:6789,10.0.0.2:6789`";
            return Err(Error::failed_precondition(what));
        }
        if let Some(name) = settings.groups().find(|name| !api::is_name(name)) {
            return Err(Error::failed_precondition(format!(
                "the setting `subvolumeGroups` has `{name}`, which is no name"
            )));
        }
        Ok(settings)
    }

    fn groups(&self) -> impl Iterator<Item = &str> {
        self.subvolume_groups.split(',').map(str::trim)
    }
}

impl Identity for CephFs {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("cephfs.wasmount.io", env!("CARGO_PKG_VERSION"))
            .with_features(&["clone-volume", "single-node-multi-writer"])
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        Settings::read().map(|_| Vec::new())
    }
}

#[cfg(test)]
mod tests;

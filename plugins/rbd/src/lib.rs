//! A CSI driver whose volumes are RBD images of Ceph, with the classes of ceph-csi. The controller speaks with ceph-mgr's REST API; the kernel of a node maps
//! an image.
mod api;
mod class;
mod node;
mod snapshots;
mod volumes;

use serde::Deserialize;
use wasmount_guest::*;

struct Rbd;
export! {
    identity: Rbd, controller: Rbd, controller_expand: Rbd, volume_listing: Rbd, volume_lookup: Rbd, capacity: Rbd, snapshots: Rbd,
    snapshot_listing: Rbd, node_stage: Rbd,
}

/// The settings of the administrator.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Settings {
    #[serde(rename = "clusterID")]
    cluster_id: Option<String>, // none: classes may name any
    monitors: String, // with commas
    pools: String,    // with commas: `kubernetes`, or with a namespace `shared/tenant`
    user: String,     // of the key in the document
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_id: None,
            monitors: String::new(),
            pools: String::new(),
            user: "kubernetes".to_owned(),
        }
    }
}

impl Settings {
    fn read() -> Result<Self, Error> {
        let settings: Self = call::settings().read()?;
        let missing = [
            (
                &settings.monitors,
                "`monitors` is missing: name the monitors, such as `10.0.0.1:6789,10.0.0.2:6789`",
            ),
            (
                &settings.pools,
                "`pools` is missing: name the pools of this driver, such as `kubernetes,shared/tenant`",
            ),
        ];
        match missing.iter().find(|(value, _)| value.is_empty()) {
            Some((_, what)) => Err(Error::failed_precondition(format!("the setting {what}"))),
            None => Ok(settings),
        }
    }

    fn monitors(&self) -> Vec<&str> {
        words(&self.monitors).collect()
    }

    /// Whether images of a pool, or of one of its namespaces, are this driver's.
    fn has(&self, place: &str) -> bool {
        words(&self.pools).any(|it| it == place)
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|it| !it.is_empty())
}

impl Identity for Rbd {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("rbd.wasmount.io", env!("CARGO_PKG_VERSION"))
            .with_features(&["clone-volume", "single-node-multi-writer"])
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        Settings::read().map(|_| Vec::new())
    }
}

#[cfg(test)]
mod tests;

//! A CSI driver for volumes of OpenStack's Cinder, with the classes, topology keys and ids of cinder-csi-plugin. Cinder is the only record of volumes,
//! snapshots and attachments; Keystone's token, TLS and retries are the host's.
mod api;
mod attach;
mod class;
mod node;
mod snapshots;
mod volumes;

use serde::Deserialize;
use wasmount_guest::*;

struct Cinder;
export! {
    identity: Cinder, controller: Cinder, controller_publish: Cinder, controller_expand: Cinder, volume_listing: Cinder, volume_lookup: Cinder,
    capacity: Cinder, snapshots: Cinder, snapshot_listing: Cinder, node_info: Cinder, node_stage: Cinder,
}

/// Who attaches volumes to nodes.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Attacher {
    Nova,   // nodes are its instances
    Cinder, // nodes are machines that it exports volumes to
}

/// The settings of the administrator.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Settings {
    attach: Attacher,
    cluster: String, // in the metadata of what is created
    ignore_volume_az: bool,
    node_volume_attach_limit: u64,
    zone: Option<String>, // of nodes that are no instances
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            attach: Attacher::Nova,
            cluster: String::new(),
            ignore_volume_az: false,
            node_volume_attach_limit: 256, // as cinder-csi-plugin has it
            zone: None,
        }
    }
}

impl Identity for Cinder {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("cinder.csi.openstack.org", env!("CARGO_PKG_VERSION")).with_features(&[
            "clone-volume",
            "published-nodes",
            "topology",
        ])
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        settings().map(|_| Vec::new())
    }
}

fn settings() -> Result<Settings, Error> {
    call::settings().read()
}

#[cfg(test)]
mod tests;

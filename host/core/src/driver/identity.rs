//! CSI's Identity service: who the driver is and what it can do. Answered from memory, so that it holds while a plugin is missing or sick.

use super::{Driver, PluginInfo};
use crate::attributes::Attributes;
use crate::call::Incoming;
use crate::capabilities::Capabilities;
use crate::error::Error;
use crate::rpc::Rpc;
use std::sync::Arc;

/// `vendor_version` while no plugin was loaded: CSI demands one.
const NO_VERSION: &str = "unknown";

impl Driver {
    /// GetPluginInfo. The name is the administrator's, the rest the plugin's.
    pub fn plugin_info(&self) -> PluginInfo {
        let plugin = self.plugin.load();
        let backend = plugin.as_ref().map(|plugin| &plugin.backend);
        PluginInfo {
            name: self.config.name.clone(),
            vendor_version: backend.map_or_else(
                || NO_VERSION.to_owned(),
                |backend| backend.label().version.clone(),
            ),
            manifest: backend
                .map_or_else(Attributes::default, |backend| backend.manifest().clone()),
        }
    }

    /// What is advertised now. Ask [`Driver::serves`] first: sidecars read this once, so a driver whose plugin is not loaded yet does
    /// better to be unavailable than to show an empty list.
    pub fn capabilities(&self) -> Capabilities {
        match self.plugin.load().as_ref() {
            Some(plugin) => plugin.capabilities.clone(),
            None => Capabilities::without_plugin(self.config.role, &self.config.policy.hidden),
        }
    }

    /// Probe: ready once the host serves and the plugin's first load has ended, well or badly. While that load is under way sidecars that
    /// start beside the host would ask for capabilities, be refused, and end: told "not ready" they wait. A sick plugin is told by
    /// `/readyz/<driver>`: were it told here, livenessprobe would restart the host and take down every other backend. A host that stands by
    /// is not ready either; nobody should restart it, so livenessprobe has no place beside it.
    pub async fn probe(self: &Arc<Self>, _incoming: Incoming) -> Result<bool, Error> {
        self.serves(Rpc::Probe)?;
        let loaded = self.plugin.load().is_some() || self.fault.load().is_some();
        Ok(loaded && !self.stands_by())
    }
}

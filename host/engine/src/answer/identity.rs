//! Answers about the plugin itself and about its node.

use super::{Checker, Invalid};
use crate::bindings::exported::{identity, node_info};
use crate::program::PluginInfo;
use wasmount_core::backend::NodeDescription;
use wasmount_core::names::{DriverName, check_identifier};

/// Longest version, in bytes: it stands in every error that is the plugin's fault.
const VERSION_BYTES: usize = 64;
/// Most features and warnings.
const LIST_ENTRIES: usize = 64;
/// Largest count of volumes: CSI counts them in a signed 64-bit field.
const CSI_VOLUMES: u64 = i64::MAX as u64;

impl Checker {
    pub(crate) fn plugin_info(&self, info: identity::PluginInfo) -> Result<PluginInfo, Invalid> {
        let identity::PluginInfo {
            name,
            version,
            manifest,
            features,
        } = info;
        self.without_secret("name", &name)?;
        // The message of the rule speaks of the document's key, which has the same rule.
        let name = DriverName::parse(name)
            .map_err(|error| Invalid::of_plugin(format!("name is no driver name ({error})")))?;
        check_identifier("version", &version, VERSION_BYTES)?;
        if features.len() > LIST_ENTRIES {
            return Err(Invalid::of_plugin(format!(
                "more than {LIST_ENTRIES} features"
            )));
        }
        Ok(PluginInfo {
            name,
            version: self.text(&version),
            manifest: self.attributes("manifest", manifest)?,
            features: features.iter().map(|feature| self.text(feature)).collect(),
        })
    }

    pub(crate) fn warnings(&self, warnings: &[String]) -> Vec<String> {
        let warnings = warnings.iter().take(LIST_ENTRIES);
        warnings.map(|warning| self.text(warning)).collect()
    }

    pub(crate) fn node(
        &self,
        node: node_info::NodeDescription,
    ) -> Result<NodeDescription, Invalid> {
        let node_info::NodeDescription {
            id,
            max_volumes,
            topology,
        } = node;
        if max_volumes.is_some_and(|max| max > CSI_VOLUMES) {
            return Err(Invalid::of_plugin("max_volumes is above 2^63-1"));
        }
        Ok(NodeDescription {
            id: id.map(|id| self.node_id(id)).transpose()?,
            max_volumes,
            topology: topology
                .map(|topology| self.topology(topology))
                .transpose()?,
        })
    }
}

//! Converts a guest's answers to the host's types and checks each against the rules of CSI (specification v1.12) and the contract.
//!
//! A text for people is redacted; a string that is passed back to the guest is rejected if it contains a secret. Every structure is destructured by
//! name: a field that is added on one side only does not compile.

mod migration;
mod snapshot;
mod volume;

use crate::bindings::exported::{identity, node_info};
use crate::bindings::types;
use crate::program::PluginInfo;
use crate::redact::Redactor;
use wasmount_core::attributes::{Attributes, MAP_BYTES};
use wasmount_core::backend::NodeDescription;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::names::{
    DriverName, INCOMING_IDENTIFIER_BYTES, InvalidField, NodeId, PLUGIN_IDENTIFIER_BYTES,
    check_identifier, is_word,
};
use wasmount_core::topology::Topology;
use wasmount_core::volume::{Page, PageRequest};

/// Largest number of bytes or of volumes: CSI counts them in a signed 64-bit field.
const CSI_NUMBER: u64 = i64::MAX as u64;
/// Longest name part of a topology key and longest value, in bytes (CSI, `Topology`; they become node labels).
const LABEL_BYTES: usize = 63;
/// Longest prefix of a topology key, in bytes (Kubernetes labels: a DNS subdomain).
const LABEL_PREFIX_BYTES: usize = 253;
/// Most topologies of one volume: far above any cluster's zones, far below what one call can carry.
const TOPOLOGIES: usize = 1024;

/// Longest version, in bytes: every error that is the plugin's fault contains it.
const VERSION_BYTES: usize = 64;
/// Most features and warnings.
const LIST_ENTRIES: usize = 64;

/// Why an answer is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// The reason, as the end of a sentence.
    pub(crate) reason: String,
    pub(crate) blame: Blame,
}

impl Invalid {
    /// The plugin is responsible, whatever the request.
    fn of_plugin(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            blame: Blame::Of(Owner::Plugin),
        }
    }

    /// The request is responsible if it contains the string.
    fn of_string(self, text: &str) -> Self {
        let blame = Blame::argument(text);
        Self { blame, ..self }
    }
}

impl From<InvalidField> for Invalid {
    fn from(error: InvalidField) -> Self {
        Self::of_plugin(error.to_string())
    }
}

/// The rules for the answers of one call.
#[derive(Debug)]
pub(crate) struct Checker {
    redactor: Redactor,
    long_ids: bool,
}

impl Checker {
    /// `long_ids`: the administrator allows ids above CSI's 128 bytes.
    pub(crate) fn new(redactor: Redactor, long_ids: bool) -> Self {
        Self { redactor, long_ids }
    }

    /// A text for people, redacted.
    pub(crate) fn text(&self, text: &str) -> String {
        self.redactor.text(text)
    }

    pub(crate) fn plugin_info(&self, info: identity::PluginInfo) -> Result<PluginInfo, Invalid> {
        let identity::PluginInfo {
            name,
            version,
            manifest,
            features,
        } = info;
        self.without_secret("name", &name)?;
        // The error's own message names the document's key, which has the same rule.
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
        if max_volumes.is_some_and(|max| max > CSI_NUMBER) {
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

    /// The id of a volume, a snapshot or a group: what the plugin named is checked more strictly than what a client sends.
    fn id<T>(&self, what: &'static str, id: String) -> Result<T, Invalid>
    where
        T: TryFrom<String, Error = InvalidField>,
    {
        self.identifier(what, &id)?;
        Ok(T::try_from(id)?)
    }

    pub(crate) fn node_id(&self, id: String) -> Result<NodeId, Invalid> {
        self.without_secret("node_id", &id)?;
        Ok(NodeId::parse("node_id", id)?)
    }

    /// A context or another map with CSI's size limit.
    pub(crate) fn attributes(
        &self,
        what: &'static str,
        pairs: types::Attributes,
    ) -> Result<Attributes, Invalid> {
        for (key, value) in &pairs {
            check_identifier("a key", key, MAP_BYTES)
                .map_err(|error| within(what, &error).of_string(key))?;
            if value.contains('\0') {
                let invalid = Invalid::of_plugin(format!("{what} contains a NUL byte"));
                return Err(invalid.of_string(value));
            }
            self.without_secret(what, key)?;
            self.without_secret(what, value)?;
        }
        let map = Attributes::from_pairs(what, pairs)?;
        map.within(what, MAP_BYTES).map_err(|error| Invalid {
            blame: Blame::Size(MAP_BYTES),
            ..error.into()
        })
    }

    pub(crate) fn topologies(
        &self,
        topologies: Vec<types::Topology>,
    ) -> Result<Vec<Topology>, Invalid> {
        if topologies.len() > TOPOLOGIES {
            return Err(Invalid::of_plugin(format!(
                "accessible_topology has more than {TOPOLOGIES} entries"
            )));
        }
        topologies
            .into_iter()
            .map(|topology| self.topology(topology))
            .collect()
    }

    pub(crate) fn topology(&self, topology: types::Topology) -> Result<Topology, Invalid> {
        let types::Topology { segments } = topology;
        let segments = self.attributes("topology", segments)?;
        if segments.is_empty() {
            return Err(Invalid::of_plugin("a topology has no segments"));
        }
        for (key, value) in segments.iter() {
            check_topology_segment(key, value)
                .map_err(|invalid| invalid.of_string(&format!("{key}={value}")))?;
        }
        Ok(Topology { segments })
    }

    /// The token of the next page; the client passes it back unchanged.
    pub(crate) fn token(&self, token: Option<String>) -> Result<Option<String>, Invalid> {
        if let Some(token) = &token {
            check_identifier("next_token", token, INCOMING_IDENTIFIER_BYTES)?;
            self.without_secret("next_token", token)?;
        }
        Ok(token)
    }

    /// A page of a list: at most as many entries as requested, each valid.
    fn page<G, T>(
        &self,
        entries: Vec<G>,
        next_token: Option<String>,
        requested: &PageRequest,
        check: impl Fn(&Self, G) -> Result<T, Invalid>,
    ) -> Result<Page<T>, Invalid> {
        page_length(entries.len(), requested.max_entries)?;
        let entries = entries.into_iter().map(|entry| check(self, entry));
        Ok(Page {
            entries: entries.collect::<Result<_, _>>()?,
            next_token: self.token(next_token)?,
        })
    }

    fn identifier(&self, what: &'static str, text: &str) -> Result<(), Invalid> {
        let limit = if self.long_ids {
            INCOMING_IDENTIFIER_BYTES
        } else {
            PLUGIN_IDENTIFIER_BYTES
        };
        check_identifier(what, text, limit)
            .map_err(|error| Invalid::from(error).of_string(text))?;
        if text.split(['/', '\\']).any(|segment| segment == "..") {
            let reason = format!(
                "{what} has `..` between slashes; a path made of it would leave its directory"
            );
            return Err(Invalid::of_plugin(reason).of_string(text));
        }
        self.without_secret(what, text)
    }

    fn without_secret(&self, what: &str, text: &str) -> Result<(), Invalid> {
        if self.redactor.finds_secret_in(text) {
            let reason =
                format!("{what} contains the value of a secret; clients store it in plain text");
            return Err(Invalid::of_plugin(reason).of_string(text));
        }
        Ok(())
    }
}

/// A number of bytes that CSI can carry.
pub(crate) fn bytes(what: &str, bytes: u64) -> Result<u64, Invalid> {
    if bytes > CSI_NUMBER {
        return Err(Invalid::of_plugin(format!("{what} is above 2^63-1 bytes")));
    }
    Ok(bytes)
}

/// A value that must equal the requested one.
pub(crate) fn same<T: PartialEq>(what: &str, answered: &T, requested: &T) -> Result<(), Invalid> {
    if answered != requested {
        return Err(Invalid::of_plugin(format!(
            "{what} is not the requested one"
        )));
    }
    Ok(())
}

/// A page has at most as many entries as requested; 0 means no limit in CSI.
pub(crate) fn page_length(entries: usize, max_entries: Option<u32>) -> Result<(), Invalid> {
    match max_entries.filter(|max| *max > 0) {
        Some(max) if u32::try_from(entries).map_or(true, |entries| entries > max) => {
            Err(Invalid::of_plugin(format!(
                "the page has {entries} entries, {max} were requested"
            )))
        }
        _ => Ok(()),
    }
}

fn within(what: &str, error: &InvalidField) -> Invalid {
    Invalid::of_plugin(format!("{what}: {error}"))
}

/// Topology segments become node labels: an optional DNS prefix and `/`, then a name; the value is like a name (CSI, `Topology`).
fn check_topology_segment(key: &str, value: &str) -> Result<(), Invalid> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let prefix_is_valid = prefix.is_none_or(|prefix| {
        prefix.len() <= LABEL_PREFIX_BYTES
            && prefix
                .split('.')
                .all(|label| is_word(label, LABEL_BYTES, "-"))
    });
    let is_label_part = |text| is_word(text, LABEL_BYTES, "-_.");
    if !prefix_is_valid || !is_label_part(name) || !is_label_part(value) {
        return Err(Invalid::of_plugin(
            "a topology segment is no valid label: keys are `[prefix/]name`, names and values have at most 63 letters, digits, `-`, `_` and `.`",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

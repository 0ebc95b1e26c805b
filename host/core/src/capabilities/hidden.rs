//! Capabilities that an administrator hides (`csi.hideCapabilities`), by CSI's names.
//!
//! A name that several services share (`EXPAND_VOLUME`, `VOLUME_CONDITION`) is hidden in all of them.

use super::{ControllerCapability, GroupCapability, NodeCapability, PluginCapability};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A set of names that are neither advertised nor served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Hidden(BTreeSet<&'static str>);

/// A name that CSI does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no capability of CSI, did you mean {nearest}?")]
pub struct UnknownCapability {
    /// As written.
    pub name: String,
    /// The name that looks most like it.
    pub nearest: &'static str,
}

impl Hidden {
    /// From the names in the document.
    pub fn parse(
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, UnknownCapability> {
        names
            .into_iter()
            .map(|name| known(name.as_ref()))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a capability of this name is hidden.
    pub fn hides(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl TryFrom<Vec<String>> for Hidden {
    type Error = UnknownCapability;

    fn try_from(names: Vec<String>) -> Result<Self, UnknownCapability> {
        Self::parse(names)
    }
}

fn known(name: &str) -> Result<&'static str, UnknownCapability> {
    if let Some(known) = names().find(|known| *known == name) {
        return Ok(known);
    }
    let nearest = names()
        .min_by_key(|known| strsim::levenshtein(known, &name.to_uppercase()))
        .unwrap_or_default();
    Err(UnknownCapability {
        name: name.to_owned(),
        nearest,
    })
}

/// All names, those that several services share more than once.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let plugin = PluginCapability::ALL.iter().map(|c| c.name());
    let controller = ControllerCapability::ALL.iter().map(|c| c.name());
    let group = GroupCapability::ALL.iter().map(|c| c.name());
    let node = NodeCapability::ALL.iter().map(|c| c.name());
    plugin.chain(controller).chain(group).chain(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_csi_is_taken() {
        let all = Hidden::parse(names()).unwrap();
        assert!(names().all(|name| all.hides(name)));
        assert!(!Hidden::default().hides("GET_SNAPSHOT"));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_one() {
        for (name, nearest) in [
            ("GET_SNAPSHOTS", "GET_SNAPSHOT"),
            ("volume_condition", "VOLUME_CONDITION"),
            ("EXPAND_VOLUMES", "EXPAND_VOLUME"),
        ] {
            assert_eq!(
                Hidden::parse(["GET_VOLUME", name]),
                Err(UnknownCapability {
                    name: name.to_owned(),
                    nearest
                })
            );
        }
    }
}

//! A string map of CSI: parameters and contexts.

use crate::names::{InvalidField, check_length};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Largest map, in bytes of keys and values (CSI specification, "Size Limits": 4 KiB).
pub const MAP_BYTES: usize = 4096;

/// Prefixes of the keys that kubelet and the sidecars add to parameters and contexts: the author of a request did not choose these keys.
const KUBERNETES_KEYS: [&str; 2] = ["csi.storage.k8s.io/", "storage.kubernetes.io/"];

/// Whether kubelet or a sidecar adds a key.
pub fn is_added_by_kubernetes(key: &str) -> bool {
    KUBERNETES_KEYS.iter().any(|start| key.starts_with(start))
}

/// A map with unique keys, in key order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attributes(BTreeMap<String, String>);

impl Attributes {
    /// From key-value pairs. A duplicate key is an error, since readers would disagree on which value counts.
    pub fn from_pairs(
        what: &'static str,
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, InvalidField> {
        let mut map = BTreeMap::new();
        for (key, value) in pairs {
            if map.insert(key, value).is_some() {
                return Err(InvalidField::rule(what, "has a key twice"));
            }
        }
        Ok(Self(map))
    }

    /// Rejects a map above `limit` bytes; the limit of the specification is [`MAP_BYTES`].
    pub fn within(self, what: &'static str, limit: usize) -> Result<Self, InvalidField> {
        check_length(what, self.bytes(), limit)?;
        Ok(self)
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// True when the map is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// All pairs in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Converts into a plain map.
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }
}

impl From<BTreeMap<String, String>> for Attributes {
    fn from(map: BTreeMap<String, String>) -> Self {
        Self(map)
    }
}

impl FromIterator<(String, String)> for Attributes {
    /// Of equal keys the last one counts: only for sources that are maps themselves.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn pairs_become_a_map_in_key_order() {
        let map = Attributes::from_pairs("context", [pair("b", "2"), pair("a", "1")]).unwrap();
        assert_eq!(map.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        assert_eq!(
            Attributes::from_pairs("context", [pair("a", "1"), pair("a", "1")]),
            Err(InvalidField::rule("context", "has a key twice"))
        );
    }

    #[test]
    fn a_map_of_4_kib_is_taken_and_one_byte_more_is_not() {
        let map = |n: usize| {
            Attributes::from_iter([pair("k", &"v".repeat(n - 1))]).within("context", MAP_BYTES)
        };
        assert!(map(4096).is_ok());
        assert_eq!(
            map(4097).unwrap_err().to_string(),
            "context is 4097 bytes long, at most 4096 are allowed"
        );
    }
}

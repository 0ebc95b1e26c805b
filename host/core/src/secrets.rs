//! Secrets: values that are used but never displayed.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use zeroize::Zeroizing;

/// Shortest value that is redacted in a guest's text, in bytes. Shorter ones would redact ordinary words, and are too short for a secret.
pub const REDACTED_VALUE_BYTES: usize = 4;

/// Named secret values; wiped from memory when dropped. No `Display`; `Debug` shows their number.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, Entry>);

#[derive(Clone, PartialEq, Eq)]
struct Entry {
    value: Zeroizing<String>,
    /// The value is no secret.
    is_identifier: bool,
}

/// The values of a plan's secret options, by the option's name. Unlike [`Secrets`] it can be serialised: it is sent to a mounter in another process,
/// and contains only the secrets that the plan names. It is never stored.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretOptions(BTreeMap<String, Zeroizing<String>>);

impl SecretOptions {
    /// Option names and values. To be passed to the kernel, never to be formatted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(option, value)| (option.as_str(), value.as_str()))
    }

    /// The value of one option.
    pub fn get(&self, option: &str) -> Option<&str> {
        self.0.get(option).map(|value| value.as_str())
    }

    /// Adds the value of an option.
    pub fn insert(&mut self, option: String, value: Zeroizing<String>) {
        self.0.insert(option, value);
    }
}

impl FromIterator<(String, String)> for SecretOptions {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let values = pairs.into_iter();
        Self(
            values
                .map(|(option, value)| (option, Zeroizing::new(value)))
                .collect(),
        )
    }
}

impl fmt::Debug for SecretOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secret options", self.0.len())
    }
}

impl Secrets {
    /// The same, where the values of these names are no secrets: a user name is kept beside its password, and texts may contain it.
    pub fn with_identifiers(mut self, names: &BTreeSet<String>) -> Self {
        for (name, entry) in &mut self.0 {
            entry.is_identifier = names.contains(name);
        }
        self
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value of a name. To be passed on, never to be formatted.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|entry| entry.value.as_str())
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a value, which is a secret; it replaces an earlier one of the same name.
    pub fn insert(&mut self, name: String, value: String) {
        let entry = Entry {
            value: Zeroizing::new(value),
            is_identifier: false,
        };
        self.0.insert(name, entry);
    }

    /// Names and values without identifiers: what no text may contain.
    pub fn confidential(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let all = self.0.iter().filter(|(_, entry)| !entry.is_identifier);
        all.map(|(name, entry)| (name.as_str(), entry.value.as_str()))
    }

    /// The values without identifiers.
    pub fn values(&self) -> impl Iterator<Item = &str> + Clone {
        self.confidential().map(|(_, value)| value)
    }
}

impl FromIterator<(String, String)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let mut secrets = Self::default();
        for (name, value) in pairs {
            secrets.insert(name, value);
        }
        secrets
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_shows_neither_name_nor_value() {
        let secrets = Secrets::from_iter([("password".to_owned(), "hunter22".to_owned())]);
        assert_eq!(format!("{secrets:?}"), "1 secrets");
        assert_eq!(secrets.get("password"), Some("hunter22"));
    }

    #[test]
    fn identifiers_are_used_and_are_not_confidential() {
        let pairs = [("user", "cinder"), ("password", "hunter22")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = Secrets::from_iter(pairs).with_identifiers(&["user".to_owned()].into());
        assert_eq!(secrets.get("user"), Some("cinder"));
        assert!(secrets.names().eq(["password", "user"]));
        assert!(secrets.values().eq(["hunter22"]));
    }
}

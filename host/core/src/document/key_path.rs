//! The place of a value in a document, and the error for an invalid value.

use std::collections::BTreeMap;
use std::fmt;

/// The path from the top of a document to one value, such as `spec.grants.pools.fast.path` or `spec.grants.filesystems[0].type`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// An invalid value of a document. It never repeats a value of `settings`, which may be a misplaced password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct InvalidDocument {
    /// The place.
    pub key: KeyPath,
    /// The error and the correct form.
    pub reason: String,
}

impl KeyPath {
    /// The path of a key below this one.
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.with(Step::Key(key.into()))
    }

    /// The path of a list element below this one.
    pub fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// The path of the enclosing value; none for the document itself.
    pub fn parent(&self) -> Option<Self> {
        let (_, above) = self.0.split_last()?;
        Some(Self(above.to_vec()))
    }

    /// The keys from the top of the document to the value, or to the first list on the way.
    pub fn keys(&self) -> Vec<String> {
        let keys = self.0.iter().map_while(|step| match step {
            Step::Key(key) => Some(key.clone()),
            Step::Index(_) => None,
        });
        keys.collect()
    }

    /// From a literal such as `spec.limits.memory`; keys that have dots themselves are added by [`KeyPath::key`].
    pub fn of(literal: &str) -> Self {
        Self(
            literal
                .split('.')
                .map(|key| Step::Key(key.to_owned()))
                .collect(),
        )
    }

    /// Combines a reason with this place.
    pub fn invalid(&self, reason: impl Into<String>) -> InvalidDocument {
        InvalidDocument {
            key: self.clone(),
            reason: reason.into(),
        }
    }

    /// Rejects the value unless a rule holds.
    pub(super) fn ensure(&self, holds: bool, reason: &str) -> Result<(), InvalidDocument> {
        match holds {
            true => Ok(()),
            false => Err(self.invalid(reason)),
        }
    }

    /// Checks each element of a list.
    pub(super) fn each<T, U, C: FromIterator<U>>(
        &self,
        list: Vec<T>,
        mut check: impl FnMut(&Self, T) -> Result<U, InvalidDocument>,
    ) -> Result<C, InvalidDocument> {
        let numbered = list.into_iter().enumerate();
        numbered
            .map(|(index, element)| check(&self.index(index), element))
            .collect()
    }

    /// Checks each value of a group of keys.
    pub(super) fn each_value<K, T, U>(
        &self,
        group: BTreeMap<String, T>,
        mut check: impl FnMut(&Self, String, T) -> Result<(K, U), InvalidDocument>,
    ) -> Result<BTreeMap<K, U>, InvalidDocument>
    where
        K: Ord,
    {
        let values = group.into_iter();
        values
            .map(|(name, value)| check(&self.key(&name), name, value))
            .collect()
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if key.contains('.') => write!(f, "[{key:?}]")?,
                Step::Key(key) if position == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_an_administrator_would_write_it() {
        let pools = KeyPath::of("spec.grants.pools");
        assert_eq!(
            pools.key("fast").key("path").to_string(),
            "spec.grants.pools.fast.path"
        );
        assert_eq!(
            pools.key("a.b").key("path").to_string(),
            "spec.grants.pools[\"a.b\"].path"
        );
        let element = KeyPath::of("spec.list").index(2).key("a");
        assert_eq!(element.to_string(), "spec.list[2].a");
        assert_eq!(element.keys(), ["spec", "list"]);
    }
}

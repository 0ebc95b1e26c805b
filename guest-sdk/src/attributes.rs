//! String maps of CSI: parameters, contexts, settings, topology segments. Apart because requests and answers of all services carry them.
//!
//! They arrive as a list of pairs with unique keys; [`AttributesExt`] reads it as the map that it is.

use crate::error::Error;

pub use crate::bindings::imports::wasmount::csi::types::Attributes;

/// Reads [`Attributes`] by key.
pub trait AttributesExt {
    /// The value of a key.
    fn value(&self, key: &str) -> Option<&str>;

    /// The value of a key that must be there: `invalid-argument` otherwise.
    fn require(&self, key: &str) -> Result<&str, Error>;

    /// Refuses keys that are not in `known` with `invalid-argument`: a misspelt parameter must not pass in silence.
    fn only(&self, known: &[&str]) -> Result<(), Error>;
}

impl AttributesExt for [(String, String)] {
    fn value(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    fn require(&self, key: &str) -> Result<&str, Error> {
        self.value(key)
            .ok_or_else(|| Error::invalid_argument(format!("`{key}` is missing: set it")))
    }

    fn only(&self, known: &[&str]) -> Result<(), Error> {
        let Some((name, _)) = self
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()))
        else {
            return Ok(());
        };
        let known = match known {
            [] => "this driver knows none".to_owned(),
            known => format!("this driver knows {}", known.join(", ")),
        };
        Err(Error::invalid_argument(format!(
            "unknown parameter `{name}`: {known}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Attributes {
        vec![("pool".to_owned(), "fast".to_owned())]
    }

    #[test]
    fn a_value_is_found_by_its_key() {
        assert_eq!(attributes().value("pool"), Some("fast"));
        assert_eq!(attributes().require("pool"), Ok("fast"));
        assert_eq!(attributes().only(&["pool", "tier"]), Ok(()));
    }

    #[test]
    fn a_missing_or_unknown_key_is_refused_by_name() {
        assert_eq!(attributes().value("tier"), None);
        assert_eq!(
            attributes().require("tier"),
            Err(Error::invalid_argument("`tier` is missing: set it"))
        );
        assert_eq!(
            attributes().only(&["tier"]),
            Err(Error::invalid_argument(
                "unknown parameter `pool`: this driver knows tier"
            ))
        );
        assert_eq!(
            attributes().only(&[]),
            Err(Error::invalid_argument(
                "unknown parameter `pool`: this driver knows none"
            ))
        );
    }
}

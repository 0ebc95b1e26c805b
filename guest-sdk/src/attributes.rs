//! String maps of CSI: parameters, contexts, settings, topology segments.
//!
//! They are passed as a list of pairs with unique keys; [`AttributesExt`] reads it as a map.

mod typed;

use crate::error::Error;
use crate::quantity::Quantity;
use serde::de::DeserializeOwned;

pub use crate::bindings::imports::wasmount::csi::types::Attributes;

/// Prefixes of the keys that Kubernetes itself adds: names of claim and volume (external-provisioner, `--extra-create-metadata`) and of the pod
/// (`podInfoOnMount`); the provisioner's identity (external-provisioner, `csiProvisionerIdentity`, in each volume context). No StorageClass sets one.
const RESERVED: [&str; 2] = ["csi.storage.k8s.io/", "storage.kubernetes.io/"];

/// Reads [`Attributes`] by key.
pub trait AttributesExt {
    /// The value of a key.
    fn value(&self, key: &str) -> Option<&str>;

    /// The value of a required key: `invalid-argument` if it is absent.
    fn require(&self, key: &str) -> Result<&str, Error>;

    /// Deserializes all pairs into a type of your own, each key a field; `invalid-argument` for what does not fit. Fields are strings, numbers,
    /// `bool`, [`crate::Quantity`], enums without data, and `Option` of these. `#[serde(deny_unknown_fields)]` rejects misspelt keys; those that
    /// Kubernetes adds (`csi.storage.k8s.io/..`, `storage.kubernetes.io/..`) are left out.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use wasmount_guest::{Attributes, AttributesExt};
    ///
    /// #[derive(Deserialize)]
    /// #[serde(default, deny_unknown_fields, rename_all = "camelCase")]
    /// struct Class {
    ///     replicas: u8,
    ///     tier: Tier,
    /// }
    ///
    /// #[derive(Debug, PartialEq, Deserialize)]
    /// #[serde(rename_all = "lowercase")]
    /// enum Tier {
    ///     Fast,
    ///     Slow,
    /// }
    ///
    /// impl Default for Class {
    ///     fn default() -> Self {
    ///         Self { replicas: 1, tier: Tier::Slow }
    ///     }
    /// }
    ///
    /// let parameters: Attributes = vec![("tier".to_owned(), "fast".to_owned())];
    /// let class: Class = parameters.read()?;
    /// assert_eq!((class.replicas, class.tier), (1, Tier::Fast));
    /// # Ok::<(), wasmount_guest::Error>(())
    /// ```
    fn read<T: DeserializeOwned>(&self) -> Result<T, Error>;

    /// The value of a key as a number of bytes, such as `64Mi`, if the key is there; `invalid-argument` if the value is not a quantity.
    fn bytes(&self, key: &str) -> Result<Option<u64>, Error>;

    /// Rejects keys that are not in `known` with `invalid-argument`: a misspelt parameter must not be ignored silently. Keys that Kubernetes adds
    /// (`csi.storage.k8s.io/..`, `storage.kubernetes.io/..`) are always accepted.
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

    fn bytes(&self, key: &str) -> Result<Option<u64>, Error> {
        let parse = |text: &str| {
            let parsed = text.parse().map(|Quantity(bytes)| bytes);
            parsed.map_err(|error| Error::invalid_argument(format!("`{key}` is {error}")))
        };
        self.value(key).map(parse).transpose()
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let own = self.iter().filter(|(name, _)| !is_reserved(name));
        typed::read(own.map(|(name, value)| (name.as_str(), value.as_str())))
    }

    fn only(&self, known: &[&str]) -> Result<(), Error> {
        let is_known = |name: &str| known.contains(&name) || is_reserved(name);
        let Some((name, _)) = self.iter().find(|(name, _)| !is_known(name)) else {
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

/// Pairs as the host takes them.
pub(crate) fn owned(pairs: &[(&str, &str)]) -> Attributes {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

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
    fn a_size_is_read_or_refused() {
        let size = |text: &str| [("size".to_owned(), text.to_owned())].bytes("size");
        assert_eq!(size("64Mi"), Ok(Some(64 << 20)));
        assert_eq!(attributes().bytes("size"), Ok(None));
        assert!(size("much").is_err_and(|error| error.message.starts_with("`size` is not")));
    }

    #[test]
    fn what_kubernetes_adds_is_no_misspelt_parameter() {
        let added = |key: &str| vec![(key.to_owned(), "claim".to_owned())];
        for key in [
            "csi.storage.k8s.io/pvc/name",
            "storage.kubernetes.io/csiProvisionerIdentity",
        ] {
            assert_eq!(added(key).only(&[]), Ok(()));
            assert_eq!(added(key).read(), Ok(BTreeMap::<String, String>::new()));
        }
        let other = added("storage.k8s.io/pvc/name");
        assert!(other.only(&[]).is_err());
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

//! Where secrets are read: a file, or a value of a Kubernetes Secret.

use super::{Checked, few, file_path, name, non_empty};
use crate::document::{KeyPath, SecretSource, raw};
use std::collections::BTreeMap;

/// `spec.secrets`.
pub(super) fn sources(
    key: &KeyPath,
    secrets: BTreeMap<String, raw::Secret>,
) -> Checked<BTreeMap<String, SecretSource>> {
    few(key, secrets.len())?;
    secrets
        .into_iter()
        .map(|(name, secret)| {
            let key = key.key(&name);
            non_empty(&key, &name)?;
            Ok((name, source(&key, secret)?))
        })
        .collect()
}

/// One of them.
pub(super) fn source(key: &KeyPath, secret: raw::Secret) -> Checked<SecretSource> {
    match secret {
        raw::Secret {
            file: Some(path),
            secret: None,
        } => Ok(SecretSource::File(file_path(&key.key("file"), path)?)),
        raw::Secret {
            file: None,
            secret: Some(object),
        } => {
            let key = key.key("secret");
            let raw::SecretKey {
                namespace,
                name: object_name,
                key: value,
            } = object;
            name(&key.key("namespace"), &namespace)?;
            name(&key.key("name"), &object_name)?;
            non_empty(&key.key("key"), &value)?;
            Ok(SecretSource::Object {
                namespace,
                name: object_name,
                key: value,
            })
        }
        _ => Err(key.invalid("must have one of `file` and `secret`; a value cannot stand here")),
    }
}

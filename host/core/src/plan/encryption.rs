//! The step `luks` of a plan: the block device of the volume is encrypted by a passphrase that is named, and never held.

use super::Named;
use super::attached::SecretScope;
use serde::{Deserialize, Serialize};

/// The name under which the mounter gets the passphrase.
pub const LUKS_KEY: &str = "luks-key";

/// Encryption by LUKS2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Luks {
    /// Whose secret it is.
    pub scope: SecretScope,
    /// The name of the secret that is the passphrase.
    pub key: String,
}

impl Luks {
    /// By the secret of this name.
    pub fn of(scope: SecretScope, key: impl Into<String>) -> Self {
        Self {
            scope,
            key: key.into(),
        }
    }

    pub(super) fn named_secret(&self) -> Named<'_> {
        (LUKS_KEY, self.scope, &self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Source};
    use crate::secrets::Secrets;
    use std::collections::BTreeMap;

    fn plan(luks: Option<Luks>) -> Plan {
        Plan {
            source: Source::Image {
                pool: "main".to_owned(),
                path: "v".to_owned(),
            },
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: BTreeMap::new(),
            luks,
        }
    }

    #[test]
    fn a_passphrase_comes_from_its_own_scope() {
        let secrets = |of: &str| Secrets::from_iter([("key".to_owned(), format!("key of {of}"))]);
        let value = |luks| {
            let options = plan(luks).secret_options(&secrets("request"), &secrets("backend"));
            options.get(LUKS_KEY).map(str::to_owned)
        };
        let of = |scope, key| Some(Luks::of(scope, key));
        for (luks, expected) in [
            (of(SecretScope::Request, "key"), Some("key of request")),
            (of(SecretScope::Backend, "key"), Some("key of backend")),
            (of(SecretScope::Backend, "other"), None),
            (None, None),
        ] {
            assert_eq!(value(luks).as_deref(), expected);
        }
    }

    #[test]
    fn a_plan_of_a_journal_without_encryption_is_read() {
        let text = r#"{"source":{"Image":{"pool":"main","path":"v"}},"default_fs_type":null,"mount_options":[],"notes":{}}"#;
        assert_eq!(serde_json::from_str::<Plan>(text).unwrap(), plan(None));
        let encrypted = plan(Some(Luks::of(SecretScope::Request, "key")));
        let written = serde_json::to_string(&encrypted).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&written).unwrap(), encrypted);
    }
}

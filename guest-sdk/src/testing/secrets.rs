//! The interface `secrets` in memory.
//!
//! It does not count uses, as the host does.

use super::with;
use crate::secrets::Scope;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Secrets(BTreeMap<(Scope, String), String>);

impl Secrets {
    pub(super) fn set(&mut self, scope: Scope, name: &str, value: &str) {
        self.0.insert((scope, name.to_owned()), value.to_owned());
    }
}

pub(crate) fn names(scope: Scope) -> Vec<String> {
    with(|host| {
        host.secrets
            .0
            .keys()
            .filter(|(of, _)| *of == scope)
            .map(|(_, name)| name.clone())
            .collect()
    })
}

pub(crate) fn get(scope: Scope, name: &str) -> Option<String> {
    with(|host| host.secrets.0.get(&(scope, name.to_owned())).cloned())
}

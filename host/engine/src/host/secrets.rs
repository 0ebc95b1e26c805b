//! Import `secrets`: the two scopes are two maps, so that a request can never shadow what the administrator set. Names of uses are traced,
//! values never.

use crate::bindings::imported::secrets::{Host, Scope};
use crate::invocation::Invocation;
use wasmount_core::secrets::Secrets;

impl Invocation {
    fn secrets_of(&self, scope: Scope) -> &Secrets {
        match scope {
            Scope::Request => &self.call.secrets,
            Scope::Backend => &self.parts.secrets,
        }
    }
}

impl Host for Invocation {
    fn names(&mut self, scope: Scope) -> wasmtime::Result<Vec<String>> {
        Ok(self.secrets_of(scope).names().map(str::to_owned).collect())
    }

    fn get(&mut self, scope: Scope, name: String) -> wasmtime::Result<Option<String>> {
        let value = self.secrets_of(scope).get(&name).map(str::to_owned);
        if value.is_some() {
            let driver = self.parts.driver.as_str();
            let request_id = self.call.request_id.as_str();
            tracing::debug!(
                driver,
                request_id,
                ?scope,
                name,
                "the plugin reads a secret"
            );
        }
        Ok(value)
    }
}

//! The imports of a guest: `call` and `secrets` here, the others in separate files.
//!
//! An error is a value that the guest may handle. Only an exceeded limit stops it.

mod attached;
mod node_facts;
mod node_plan;
mod pool;
mod sealed_secrets;
pub(crate) mod session;
mod state;

use crate::bindings::imported::{call, secrets};
use crate::bindings::types::{self, Attributes};
use crate::convert::Convert;
use crate::function::Access;
use crate::host_error::HostError;
use crate::invocation::Invocation;
use tokio::time::Instant;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::secrets::Secrets;

type Answer<T> = Result<T, HostError>;

impl Invocation {
    /// The only check before any change, for all interfaces. `what` starts the sentence.
    fn may_change(&self, what: &str) -> Answer<()> {
        let reason = match self.access {
            Access::ReadWrite => return Ok(()),
            Access::ReadOnly => "in a call that only reads, as `probe` and `check-settings` do",
            Access::Migration => "while records are migrated: that could not be undone",
        };
        let refused = format!("{what} cannot be changed {reason}");
        let refused = HostError::new(Code::FailedPrecondition, refused);
        Err(refused.blaming(Code::Internal, Blame::Of(Owner::Plugin)))
    }

    /// Waits for what is not the guest's: a pool, a session, a fact. If the call ends before that, the flag stays set.
    async fn waiting<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.waits_for_storage = true;
        let done = work.await;
        self.waits_for_storage = false;
        done
    }
}

impl types::Host for Invocation {
    fn convert_error(&mut self, error: HostError) -> wasmtime::Result<types::Error> {
        if error.fault.is_some() {
            self.rejection = Some(error.clone());
        }
        Ok(types::Error {
            code: error.code.convert(),
            message: error.message,
        })
    }
}

impl call::Host for Invocation {
    fn remaining_ms(&mut self) -> wasmtime::Result<u64> {
        let left = self.call.deadline.saturating_duration_since(Instant::now());
        Ok(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    fn is_cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(self.call.cancelled.is_cancelled() || Instant::now() >= self.call.deadline)
    }

    fn request_id(&mut self) -> wasmtime::Result<String> {
        Ok(self.call.request_id.clone())
    }

    fn node_name(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(self.parts.node_name.clone())
    }

    fn settings(&mut self) -> wasmtime::Result<Attributes> {
        Ok((&self.parts.settings).convert())
    }

    fn log(
        &mut self,
        level: call::Level,
        message: String,
        fields: Attributes,
    ) -> wasmtime::Result<()> {
        self.log.message(level, &message, &fields);
        Ok(())
    }
}

impl Invocation {
    fn secrets_of(&self, scope: secrets::Scope) -> &Secrets {
        match scope {
            secrets::Scope::Request => &self.call.secrets,
            secrets::Scope::Backend => &self.parts.secrets,
        }
    }

    /// Whether the host uses a secret for the plugin and does not show it: one that a network grant names.
    fn is_held(&self, scope: secrets::Scope, name: &str) -> bool {
        matches!(scope, secrets::Scope::Backend) && self.parts.held_secrets.contains(name)
    }
}

/// The two scopes are two maps, so that a request can never shadow the administrator's secrets. Names of used secrets are traced, values never.
impl secrets::Host for Invocation {
    fn names(&mut self, scope: secrets::Scope) -> wasmtime::Result<Vec<String>> {
        let names = self.secrets_of(scope).names();
        let shown = names.filter(|name| !self.is_held(scope, name));
        Ok(shown.map(str::to_owned).collect())
    }

    fn get(&mut self, scope: secrets::Scope, name: String) -> wasmtime::Result<Option<String>> {
        let value = self.secrets_of(scope).get(&name);
        let value = value.filter(|_| !self.is_held(scope, &name));
        let value = value.map(str::to_owned);
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

//! Import `session`: what logins of the plugin yielded, in the memory of this process.

use super::Answer;
use crate::bindings::imported::session::{Found, Host, HostLease};
use crate::host_error::HostError;
use crate::http::last_wait;
use crate::invocation::Invocation;
use crate::lease::HeldLease;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_network::{SessionError, SessionFound};
use wasmtime::component::{Resource, ResourceTableError};
use zeroize::Zeroizing;

impl Invocation {
    /// A value counts as a secret, in this spelling. Other bytes than text cannot be printed as they are.
    fn learn_session(&self, value: &[u8]) {
        if let Ok(text) = std::str::from_utf8(value) {
            self.redactor.learn([Zeroizing::new(text.to_owned())]);
        }
    }
}

impl Host for Invocation {
    async fn get(&mut self, key: String, wait_ms: u32) -> Answer<Found> {
        let wait = Instant::now() + Duration::from_millis(wait_ms.into());
        let deadline = wait.min(last_wait(&self.call));
        let parts = Arc::clone(&self.parts);
        let found = parts.network.sessions().get(&key, deadline);
        match self.waiting(found).await? {
            SessionFound::Value(value) => {
                self.learn_session(&value);
                Ok(Found::Value(value.to_vec()))
            }
            SessionFound::Yours(lease) => Ok(Found::Yours(self.table.push(Some(lease))?)),
        }
    }

    async fn invalidate(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<()> {
        self.parts.network.sessions().invalidate(&key, &value);
        Ok(())
    }
}

impl HostLease for Invocation {
    async fn keep(
        &mut self,
        lease: Resource<HeldLease>,
        value: Vec<u8>,
        ttl_ms: u32,
    ) -> Answer<()> {
        self.learn_session(&value);
        let held = self.table.get_mut(&lease)?;
        let Some(lease) = held.take() else {
            let reason = "the value of this lease was kept already";
            return Err(HostError::new(Code::FailedPrecondition, reason));
        };
        let lasts = Duration::from_millis(ttl_ms.into());
        Ok(lease.keep(value, lasts)?)
    }

    async fn drop(&mut self, lease: Resource<HeldLease>) -> wasmtime::Result<()> {
        self.table.delete(lease)?;
        Ok(())
    }
}

impl From<SessionError> for HostError {
    fn from(error: SessionError) -> Self {
        let text = error.to_string();
        let blame = Blame::Of(Owner::Plugin);
        match error {
            SessionError::Waiting => Self::new(Code::Unavailable, text),
            SessionError::TooManyKeys => {
                Self::new(Code::ResourceExhausted, text).blaming(Code::Internal, blame)
            }
            SessionError::KeyTooLong | SessionError::ValueTooLarge => Self::rejected(text, blame),
        }
    }
}

/// All handles of the call are in use.
impl From<ResourceTableError> for HostError {
    fn from(error: ResourceTableError) -> Self {
        let refused = format!("no handle for a lease: {error}; `limits.handles` bounds them");
        Self::new(Code::ResourceExhausted, refused)
    }
}

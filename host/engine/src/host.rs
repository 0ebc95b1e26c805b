//! What the host offers to a guest: one file per interface of the contract.
//!
//! An error is a value that the guest may handle. Only a limit stops it.

mod call;
mod node_plan;
mod pool;
mod secrets;
mod state;

use crate::bindings::types;
use crate::convert;
use crate::function::Access;
use crate::host_error::HostError;
use crate::invocation::Invocation;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;

impl Invocation {
    /// The one gate before anything is changed, whichever interface asks. `what` begins the sentence.
    fn may_change(&self, what: &str) -> Result<(), HostError> {
        let reason = match self.access {
            Access::ReadWrite => return Ok(()),
            Access::ReadOnly => "in a call that only reads, as `probe` and `check-settings` do",
            Access::Migration => "while records are migrated: that could not be taken back",
        };
        let refused = format!("{what} cannot be changed {reason}");
        let refused = HostError::told(Code::FailedPrecondition, refused);
        Err(refused.blaming(Code::Internal, Blame::Of(Owner::Plugin)))
    }
}

impl types::Host for Invocation {
    fn convert_error(&mut self, error: HostError) -> wasmtime::Result<types::Error> {
        let (code, message, refusal) = error.into_parts();
        self.refusal = refusal.or(self.refusal.take());
        Ok(types::Error {
            code: convert::code_to_guest(code),
            message,
        })
    }
}

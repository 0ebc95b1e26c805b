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
use crate::invocation::Invocation;
use crate::program::Access;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::state::StateError;

/// Why a function of the host fails; the guest is told, and may handle it.
#[derive(Debug)]
pub(crate) struct HostError {
    told: types::Error,
    /// An argument is refused: what the client is told if the guest does not handle it, and whose fault that is.
    fault: Option<(Code, Blame)>,
}

/// A refusal of an argument. A client that is told of it in the guest's words would look for a fault of its own.
#[derive(Debug)]
pub(crate) struct Refusal {
    told: types::Error,
    code: Code,
    blame: Blame,
}

/// What failed a function of the contract that can answer no error. The guest is stopped, which is not its fault.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Unanswered {
    pub(crate) code: Code,
    message: String,
}

impl HostError {
    pub(crate) fn told(code: Code, message: impl Into<String>) -> Self {
        let told = types::Error {
            code: convert::code_to_guest(code),
            message: message.into(),
        };
        Self { told, fault: None }
    }

    /// An argument is refused, for which a client has this code.
    pub(crate) fn blaming(self, code: Code, blame: Blame) -> Self {
        let fault = Some((code, blame));
        Self { fault, ..self }
    }

    /// For a function that has no error.
    pub(crate) fn into_stop(self) -> wasmtime::Error {
        let types::Error { code, message } = self.told;
        wasmtime::Error::new(Unanswered {
            code: convert::code_of_guest(code),
            message,
        })
    }
}

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

impl Refusal {
    /// What a client is told of a guest's answer, and whose fault it is, if the answer is this refusal, handed on as it was.
    pub(crate) fn handed_on(&self, answered: &types::Error) -> Option<(Code, Blame)> {
        let is_handed_on = self.told.code == answered.code && self.told.message == answered.message;
        is_handed_on.then(|| (self.code, self.blame.clone()))
    }
}

impl From<StateError> for HostError {
    fn from(error: StateError) -> Self {
        let told = Self::told(error.code(), error.to_string());
        match error {
            StateError::TooLarge { limit, .. } => told.blaming(Code::Internal, Blame::Size(limit)),
            // So many volumes are its clients'; the limit is the administrator's.
            StateError::OverLimit { .. } => {
                let blame = Blame::Of(Owner::Administrator);
                told.blaming(Code::ResourceExhausted, blame)
            }
            StateError::Full | StateError::NoTransactions | StateError::Failed { .. } => told,
        }
    }
}

impl From<MountError> for HostError {
    fn from(error: MountError) -> Self {
        let code = error.code();
        let told = Self::told(code, error.to_string());
        match error {
            // The code stays, as it does of a plan that is not valid.
            MountError::Invalid { blame, .. } => told.blaming(code, blame),
            _ => told,
        }
    }
}

impl types::Host for Invocation {
    fn convert_error(&mut self, error: HostError) -> wasmtime::Result<types::Error> {
        let HostError { told, fault } = error;
        if let Some((code, blame)) = fault {
            let told = told.clone();
            self.refusal = Some(Refusal { told, code, blame });
        }
        Ok(told)
    }
}

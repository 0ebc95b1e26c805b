//! What the host offers to a guest: one file per interface of the contract. Apart from the calls into a guest because here the guest is the
//! caller, and nothing that it says is trusted.
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
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::state::StateError;

/// Why a function of the host fails; the guest is told, and may handle it.
#[derive(Debug)]
pub(crate) struct HostError {
    told: types::Error,
    /// The plugin's fault: what the client is told if the guest does not handle it.
    fault: Option<Code>,
}

/// A refusal that is the plugin's fault. A client that is told of it in the guest's words would look for a fault of its own.
#[derive(Debug)]
pub(crate) struct Refusal {
    told: types::Error,
    code: Code,
}

impl HostError {
    pub(crate) fn told(code: Code, message: impl Into<String>) -> Self {
        let told = types::Error {
            code: convert::code_to_guest(code),
            message: message.into(),
        };
        Self { told, fault: None }
    }

    /// The plugin's fault, for which a client has this code.
    pub(crate) fn blaming_the_plugin(self, code: Code) -> Self {
        let fault = Some(code);
        Self { fault, ..self }
    }

    pub(crate) fn into_message(self) -> String {
        self.told.message
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
        Err(refused.blaming_the_plugin(Code::Internal))
    }
}

impl Refusal {
    /// What a client is told of a guest's answer: that code, if the answer is this refusal, handed on as it was.
    pub(crate) fn code_of(&self, answered: &types::Error) -> Option<Code> {
        let is_handed_on = self.told.code == answered.code && self.told.message == answered.message;
        is_handed_on.then_some(self.code)
    }
}

impl From<StateError> for HostError {
    fn from(error: StateError) -> Self {
        let told = Self::told(error.code(), error.to_string());
        match error {
            StateError::TooLarge { .. } => told.blaming_the_plugin(Code::Internal),
            StateError::OverLimit { .. } => told.blaming_the_plugin(Code::ResourceExhausted),
            StateError::Full | StateError::NoTransactions | StateError::Failed { .. } => told,
        }
    }
}

impl From<MountError> for HostError {
    fn from(error: MountError) -> Self {
        let code = error.code();
        let told = Self::told(code, error.to_string());
        match error {
            // A size may be the client's, so the code stays, as it does of a plan that is not valid.
            MountError::Invalid { .. } => told.blaming_the_plugin(code),
            _ => told,
        }
    }
}

impl types::Host for Invocation {
    fn convert_error(&mut self, error: HostError) -> wasmtime::Result<types::Error> {
        let HostError { told, fault } = error;
        if let Some(code) = fault {
            let told = told.clone();
            self.refusal = Some(Refusal { told, code });
        }
        Ok(told)
    }
}

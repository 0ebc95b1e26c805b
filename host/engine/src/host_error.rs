//! Errors of the functions that the host offers to a guest, and the part of them that is kept after the function returns.

use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::state::StateError;

/// Why a function of the host fails; the guest receives it, and may handle it.
#[derive(Debug)]
pub(crate) struct HostError {
    code: Code,
    message: String,
    /// For a rejected argument: the code for the client if the guest does not handle the error, and who is responsible.
    fault: Option<(Code, Blame)>,
}

/// The rejection of an argument. If the client received it as the guest's own error, it would search for a mistake of its own.
#[derive(Debug)]
pub(crate) struct Refusal {
    told: (Code, String),
    code: Code,
    blame: Blame,
}

/// The failure of a function for which the contract defines no error. The guest is stopped, which is not its fault.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Unanswered {
    pub(crate) code: Code,
    message: String,
}

impl HostError {
    pub(crate) fn told(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            fault: None,
        }
    }

    /// Marks the error as a rejected argument, with the client's code.
    pub(crate) fn blaming(self, code: Code, blame: Blame) -> Self {
        let fault = Some((code, blame));
        Self { fault, ..self }
    }

    /// For a function without an error in the contract.
    pub(crate) fn into_stop(self) -> wasmtime::Error {
        wasmtime::Error::new(Unanswered {
            code: self.code,
            message: self.message,
        })
    }

    /// The guest's error, and the refusal to keep for a rejected argument.
    pub(crate) fn into_parts(self) -> (Code, String, Option<Refusal>) {
        let refusal = self.fault.map(|(code, blame)| Refusal {
            told: (self.code, self.message.clone()),
            code,
            blame,
        });
        (self.code, self.message, refusal)
    }
}

impl Refusal {
    /// The client's code and who is responsible, if the guest's answer is this rejection, passed on unchanged.
    pub(crate) fn handed_on(&self, code: Code, message: &str) -> Option<(Code, Blame)> {
        let is_handed_on = self.told.0 == code && self.told.1 == message;
        is_handed_on.then(|| (self.code, self.blame.clone()))
    }
}

impl From<StateError> for HostError {
    fn from(error: StateError) -> Self {
        let told = Self::told(error.code(), error.to_string());
        match error {
            StateError::TooLarge { limit, .. } => told.blaming(Code::Internal, Blame::Size(limit)),
            // The clients cause the number of volumes; the administrator sets the limit.
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
            // The code stays the same, as for an invalid plan.
            MountError::Invalid { blame, .. } => told.blaming(code, blame),
            _ => told,
        }
    }
}

//! Errors of the functions that the host offers to a guest, and what of them outlives the function.

use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::state::StateError;

/// Why a function of the host fails; the guest is told, and may handle it.
#[derive(Debug)]
pub(crate) struct HostError {
    code: Code,
    message: String,
    /// An argument is refused: what the client is told if the guest does not handle it, and whose fault that is.
    fault: Option<(Code, Blame)>,
}

/// A refusal of an argument. A client that is told of it in the guest's words would look for a fault of its own.
#[derive(Debug)]
pub(crate) struct Refusal {
    told: (Code, String),
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
        Self {
            code,
            message: message.into(),
            fault: None,
        }
    }

    /// An argument is refused, for which a client has this code.
    pub(crate) fn blaming(self, code: Code, blame: Blame) -> Self {
        let fault = Some((code, blame));
        Self { fault, ..self }
    }

    /// For a function that has no error.
    pub(crate) fn into_stop(self) -> wasmtime::Error {
        wasmtime::Error::new(Unanswered {
            code: self.code,
            message: self.message,
        })
    }

    /// What the guest is told, and what is remembered of a refused argument.
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
    /// What a client is told of a guest's answer, and whose fault it is, if the answer is this refusal, handed on as it was.
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

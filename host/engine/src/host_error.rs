//! Errors of the functions that the host offers to a guest.

use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::state::StateError;

/// Why a function of the host fails. The guest receives it, and may handle it; a function for which the contract defines no error stops the guest with
/// it instead, which is not the guest's fault.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct HostError {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// For a rejected argument: the code for the client if the guest passes the error on unchanged, and who is responsible. If the client received it as
    /// the guest's own error, it would search for a mistake of its own.
    pub(crate) fault: Option<(Code, Blame)>,
}

impl HostError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            fault: None,
        }
    }

    /// A rejected argument. If the guest passes the error on unchanged, the client gets INTERNAL.
    pub(crate) fn rejected(message: impl Into<String>, blame: Blame) -> Self {
        Self::new(Code::InvalidArgument, message).blaming(Code::Internal, blame)
    }

    /// Marks the error as a rejected argument, with the client's code.
    pub(crate) fn blaming(self, code: Code, blame: Blame) -> Self {
        let fault = Some((code, blame));
        Self { fault, ..self }
    }
}

impl From<StateError> for HostError {
    fn from(error: StateError) -> Self {
        let failed = Self::new(error.code(), error.to_string());
        match error {
            StateError::TooLarge { limit, .. } => {
                failed.blaming(Code::Internal, Blame::Size(limit))
            }
            // The clients cause the number of volumes; the administrator sets the limit.
            StateError::OverLimit { .. } => {
                let blame = Blame::Of(Owner::Administrator);
                failed.blaming(Code::ResourceExhausted, blame)
            }
            StateError::Full | StateError::NoTransactions | StateError::Failed { .. } => failed,
        }
    }
}

impl From<MountError> for HostError {
    fn from(error: MountError) -> Self {
        let code = error.code();
        let failed = Self::new(code, error.to_string());
        match error {
            // The code stays the same, as for an invalid plan.
            MountError::Invalid { blame, .. } => failed.blaming(code, blame),
            _ => failed,
        }
    }
}

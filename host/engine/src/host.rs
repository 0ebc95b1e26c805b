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
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::state::StateError;

/// Why a function of the host fails; the guest is told, and may handle it.
#[derive(Debug)]
pub(crate) struct HostError(types::Error);

impl HostError {
    pub(crate) fn told(code: Code, message: impl Into<String>) -> Self {
        Self(types::Error {
            code: convert::code_to_guest(code),
            message: message.into(),
        })
    }
}

impl From<StateError> for HostError {
    fn from(error: StateError) -> Self {
        Self::told(error.code(), error.to_string())
    }
}

impl From<MountError> for HostError {
    fn from(error: MountError) -> Self {
        Self::told(error.code(), error.to_string())
    }
}

impl types::Host for Invocation {
    fn convert_error(&mut self, error: HostError) -> wasmtime::Result<types::Error> {
        let HostError(error) = error;
        Ok(error)
    }
}

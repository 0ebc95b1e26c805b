//! The errors of a call into a guest; among them the meaning of wasmtime's errors when it stops a guest: a limit of the document, or a fault of the
//! plugin.

use crate::function::Function;
use crate::host_error::HostError;
use crate::limits::{NoMemoryLeft, OverLimit};
use crate::program::Program;
use crate::redact::Redactor;
use wasmount_core::backend::BackendError;
use wasmount_core::blame::Blame;
use wasmount_core::code::Code;
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

/// wasmtime 48's message for a host call that carries more than `Store::set_hostcall_fuel`; the error has no public type. A test checks it.
const FUEL_TEXT: &str = "fuel allocated for hostcalls has been exhausted";
/// The message for `Store::set_max_component_handles`.
const HANDLE_TEXT: &str = "store handle limit exceeded";

/// A function of a plugin that is called, as errors name it.
#[derive(Clone, Copy)]
pub(crate) struct Callee<'a> {
    pub(crate) program: &'a Program,
    pub(crate) function: Function,
}

impl Callee<'_> {
    /// The error for a stopped call.
    pub(crate) fn failed(
        self,
        error: &wasmtime::Error,
        last_output: Option<String>,
        redactor: &Redactor,
    ) -> BackendError {
        let limits = &self.program.parts.limits;
        if error.is::<PoolConcurrencyLimitError>() {
            return BackendError::Busy {
                limit: limits.concurrency,
            };
        }
        if let Some(NoMemoryLeft { most: bytes }) = error.downcast_ref() {
            return BackendError::MemoryBusy { bytes: *bytes };
        }
        if let Some(failed) = error.downcast_ref::<HostError>() {
            return self.host_failed(failed.code, redactor.text(&failed.message));
        }
        // A guest cannot cause such an error: the host could not map memory or start a fiber.
        if let Some(failed) = error.downcast_ref::<std::io::Error>() {
            return self.host_failed(Code::Unavailable, failed.to_string());
        }
        let mentions = |text: &str| error.chain().any(|cause| cause.to_string().contains(text));
        if let Some(OverLimit(limit)) = error.downcast_ref() {
            self.over_limit(limit.clone())
        } else if mentions(FUEL_TEXT) {
            self.over_limit(format!("limits.hostCallBytes ({})", limits.host_call_bytes))
        } else if mentions(HANDLE_TEXT)
            || matches!(error.downcast_ref(), Some(ResourceTableError::Full))
        {
            self.over_limit(format!("limits.handles ({})", limits.handles))
        } else {
            BackendError::Trapped {
                plugin: self.program.label.clone(),
                function: self.function.name,
                reason: redactor.text(&reason(error, last_output)),
            }
        }
    }

    pub(crate) fn host_failed(self, code: Code, reason: String) -> BackendError {
        BackendError::HostFailed {
            plugin: self.program.label.clone(),
            function: self.function.name,
            code,
            reason,
        }
    }

    pub(crate) fn withheld(self, message: String) -> BackendError {
        BackendError::Withheld {
            plugin: self.program.label.clone(),
            function: self.function.name,
            message,
        }
    }

    pub(crate) fn over_limit(self, limit: String) -> BackendError {
        BackendError::OverLimit {
            plugin: self.program.label.clone(),
            function: self.function.name,
            limit,
        }
    }

    pub(crate) fn out_of_time(self, seconds: u64) -> BackendError {
        BackendError::OutOfTime {
            plugin: self.program.label.clone(),
            function: self.function.name,
            seconds,
        }
    }

    pub(crate) fn bad_answer(self, reason: String, blame: Blame) -> BackendError {
        BackendError::BadAnswer {
            plugin: Box::new(self.program.label.clone()),
            function: self.function.name,
            reason,
            blame,
        }
    }

    pub(crate) fn refused(self, code: Code, reason: String, blame: Blame) -> BackendError {
        BackendError::Refused {
            plugin: Box::new(self.program.label.clone()),
            function: self.function.name,
            code,
            reason,
            blame,
        }
    }
}

/// A panic's message helps more than the trap's, so it comes first.
fn reason(error: &wasmtime::Error, last_output: Option<String>) -> String {
    let end = if let Some(trap) = error.downcast_ref::<Trap>() {
        trap.to_string()
    } else if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
        format!("it exited with status {status}")
    } else {
        error.root_cause().to_string()
    };
    match last_output {
        Some(output) => format!("{output} ({end})"),
        None => end,
    }
}

//! The meaning of wasmtime's errors when it stops a guest: a limit of the document, or a fault of the plugin.

use crate::function::Function;
use crate::host_error::Unanswered;
use crate::limits::{NoMemoryLeft, OverLimit};
use crate::program::Program;
use crate::redact::Redactor;
use wasmount_core::backend::BackendError;
use wasmount_core::code::Code;
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

/// wasmtime 48's message for a host call that carries more than `Store::set_hostcall_fuel`; the error has no public type. A test checks it.
const FUEL_WORDS: &str = "fuel allocated for hostcalls has been exhausted";
/// The message for `Store::set_max_component_handles`.
const HANDLE_WORDS: &str = "store handle limit exceeded";

/// The error for a stopped call.
pub(crate) fn of(
    program: &Program,
    function: Function,
    error: &wasmtime::Error,
    last_words: Option<String>,
    redactor: &Redactor,
) -> BackendError {
    let limits = &program.parts.limits;
    if error.is::<PoolConcurrencyLimitError>() {
        return BackendError::Busy {
            limit: limits.concurrency,
        };
    }
    if let Some(NoMemoryLeft { most: bytes }) = error.downcast_ref() {
        return BackendError::MemoryBusy { bytes: *bytes };
    }
    if let Some(failed) = error.downcast_ref::<Unanswered>() {
        let reason = redactor.text(&failed.to_string());
        return host_failed(program, function, failed.code, reason);
    }
    // A guest cannot cause such an error: the host could not map memory or start a fiber.
    if let Some(failed) = error.downcast_ref::<std::io::Error>() {
        return host_failed(program, function, Code::Unavailable, failed.to_string());
    }
    let says = |words: &str| error.chain().any(|cause| cause.to_string().contains(words));
    let limit = if let Some(OverLimit(limit)) = error.downcast_ref() {
        Some(limit.clone())
    } else if says(FUEL_WORDS) {
        Some(format!("limits.hostCallBytes ({})", limits.host_call_bytes))
    } else if says(HANDLE_WORDS) || matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        Some(format!("limits.handles ({})", limits.handles))
    } else {
        None
    };
    match limit {
        Some(limit) => over_limit(program, function, limit),
        None => BackendError::Trapped {
            plugin: program.label.clone(),
            function: function.name,
            reason: redactor.text(&reason(error, last_words)),
        },
    }
}

/// A panic's message helps more than the trap's, so it comes first.
fn reason(error: &wasmtime::Error, last_words: Option<String>) -> String {
    let end = if let Some(trap) = error.downcast_ref::<Trap>() {
        trap.to_string()
    } else if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
        format!("it exited with status {status}")
    } else {
        error.root_cause().to_string()
    };
    match last_words {
        Some(words) => format!("{words} ({end})"),
        None => end,
    }
}

pub(crate) fn host_failed(
    program: &Program,
    function: Function,
    code: Code,
    reason: String,
) -> BackendError {
    BackendError::HostFailed {
        plugin: program.label.clone(),
        function: function.name,
        code,
        reason,
    }
}

pub(crate) fn over_limit(program: &Program, function: Function, limit: String) -> BackendError {
    BackendError::OverLimit {
        plugin: program.label.clone(),
        function: function.name,
        limit,
    }
}

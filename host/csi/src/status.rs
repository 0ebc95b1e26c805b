//! Converts errors to gRPC statuses; the only place where a failed call is logged.
//!
//! It does not choose codes (`core::code` does) and redacts nothing: errors contain no secrets. Called within the call's span, which names the RPC,
//! the driver and the request.

use crate::error::Error;
use tonic::Status;
use wasmount_core::backend::BackendError;
use wasmount_core::code::Code;
use wasmount_core::error::Error as DriverError;
use wasmount_core::state::StateError;
use wasmount_core::text::{chain, shortened};

/// Longest message to a client, in bytes. It is sent in a header, percent-encoded up to three times as long, and HTTP/2 clients commonly accept 16
/// KiB of headers.
const MESSAGE_BYTES: usize = 4096;

/// Logs a failed call, with its duration in milliseconds, and returns the client's status.
pub(crate) fn status(error: &Error, duration_ms: f64) -> Status {
    let code = tonic::Code::from_i32(error.code().number());
    let causes = chain(error);
    if is_fault(error) {
        tracing::error!(?code, duration_ms, error = %causes, "call failed");
    } else {
        tracing::warn!(?code, duration_ms, error = %causes, "call refused");
    }
    Status::new(code, shortened(causes, MESSAGE_BYTES))
}

/// Whether the plugin, the store, the node or the host must be repaired. All other errors are ordinary answers.
fn is_fault(error: &Error) -> bool {
    match error {
        Error::Driver(error) => is_fault_of_driver(error),
        Error::Invalid(_) | Error::NegativeOffset | Error::UnknownToken | Error::CutOff { .. } => {
            false
        }
    }
}

fn is_fault_of_driver(error: &DriverError) -> bool {
    match error {
        DriverError::AfterEffect { source } => is_fault_of_driver(source),
        DriverError::Backend(error) => is_fault_of_backend(error),
        // The codes of failures of storage, node and host.
        DriverError::Mount(error) => matches!(
            error.code(),
            Code::DeadlineExceeded | Code::Unavailable | Code::Internal | Code::DataLoss
        ),
        DriverError::State(error) => match error {
            StateError::Full | StateError::Failed { .. } => true,
            StateError::TooLarge { .. }
            | StateError::OverLimit { .. }
            | StateError::NoTransactions => false,
        },
        // If the request is at fault, the error of a plan does not name the plugin.
        DriverError::Plan { .. } | DriverError::Lost { .. } => true,
        DriverError::InFlight { .. }
        | DriverError::NotServed { .. }
        | DriverError::NotOffered { .. }
        | DriverError::NoPlugin { .. }
        | DriverError::Precondition(_)
        | DriverError::SnapshotNotReady { .. }
        | DriverError::ShuttingDown
        | DriverError::Standby
        | DriverError::NoNewWork { .. }
        | DriverError::Quiesced
        | DriverError::StillUnderWay { .. } => false,
    }
}

fn is_fault_of_backend(error: &BackendError) -> bool {
    match error {
        BackendError::Trapped { .. }
        | BackendError::OverLimit { .. }
        | BackendError::OutOfTime { .. }
        | BackendError::BadAnswer { .. }
        | BackendError::Refused { .. }
        | BackendError::HostFailed { .. } => true,
        BackendError::Answered { .. }
        | BackendError::Busy { .. }
        | BackendError::MemoryBusy { .. }
        | BackendError::NotOffered { .. }
        | BackendError::Withheld { .. }
        | BackendError::Cancelled => false,
    }
}

#[cfg(test)]
mod tests;

//! The one place that maps errors to gRPC codes. A code is chosen for what the caller will do with it:
//!
//!  * external-provisioner retries for ever on Unavailable, Aborted, Cancelled and DeadlineExceeded ("may still be running"), and
//!    reschedules on ResourceExhausted (`checkError` in its controller.go);
//!  * kubelet takes Canceled, DeadlineExceeded, Unavailable, ResourceExhausted and Aborted for *uncertain* and will clean up; any other
//!    code of stage or publish tells it that nothing is mounted (`isFinalError` in its csi_client.go).
//!
//! So whatever may have work under way is never `Internal`.

use super::Code;
use crate::backend::BackendError;
use crate::error::Error;
use crate::mounter::MountError;
use crate::state::StateError;

impl Error {
    /// What the client is told.
    pub fn code(&self) -> Code {
        match self {
            Error::Invalid(_) | Error::NotOffered { .. } => Code::InvalidArgument,
            Error::Backend(error) => error.code(),
            Error::Mount(error) | Error::Plan { source: error, .. } => error.code(),
            Error::State(error) => error.code(),
            Error::InFlight { .. } | Error::SnapshotNotReady { .. } => Code::Aborted,
            Error::NotServed { .. } => Code::Unimplemented,
            Error::NoPlugin { .. }
            | Error::ShuttingDown
            | Error::StandingBy
            | Error::NoNewWork { .. }
            | Error::Held => Code::Unavailable,
            Error::Precondition(_) => Code::FailedPrecondition,
            Error::StillUnderWay { .. } => Code::DeadlineExceeded,
            Error::Lost { .. } => Code::Internal,
            Error::AfterEffect { source } => source.code().after_effect(),
        }
    }
}

impl BackendError {
    /// What the client is told.
    pub fn code(&self) -> Code {
        match self {
            BackendError::Answered { code, .. }
            | BackendError::Refused { code, .. }
            | BackendError::HostFailed { code, .. } => *code,
            // The instance is gone and with it whatever it was doing: final, unless it has changed something (`Code::after_effect`).
            BackendError::Trapped { .. } | BackendError::BadAnswer { .. } => Code::Internal,
            BackendError::OverLimit { .. } => Code::ResourceExhausted,
            // What it asked of a remote system may still happen.
            BackendError::OutOfTime { .. } => Code::DeadlineExceeded,
            BackendError::Busy { .. }
            | BackendError::MemoryBusy { .. }
            | BackendError::Cancelled => Code::Unavailable,
            BackendError::NotOffered { .. } => Code::Unimplemented,
        }
    }
}

impl MountError {
    /// What the client, or the guest that called, is told.
    pub fn code(&self) -> Code {
        match self {
            MountError::OutsideRoots { .. } => Code::InvalidArgument,
            MountError::NotFound { .. } => Code::NotFound,
            MountError::NotStaged { .. }
            | MountError::Precondition { .. }
            | MountError::InUse { .. }
            | MountError::Unusable { .. } => Code::FailedPrecondition,
            MountError::AlreadyExists { .. } => Code::AlreadyExists,
            MountError::NotGranted { .. } => Code::PermissionDenied,
            MountError::Invalid { .. } => Code::InvalidArgument,
            MountError::Unsupported { .. } => Code::Unimplemented,
            MountError::NoSpace { .. } => Code::ResourceExhausted,
            MountError::Hung { .. } => Code::DeadlineExceeded,
            MountError::UnderWay { .. } => Code::Aborted,
            MountError::OutOfRange { .. } => Code::OutOfRange,
            MountError::Damaged { .. } => Code::DataLoss,
            MountError::Kernel { .. } | MountError::Tool { .. } => Code::Internal,
            MountError::OutOfThreads { .. }
            | MountError::OutOfResources { .. }
            | MountError::Unreachable { .. } => Code::Unavailable,
        }
    }
}

impl StateError {
    /// What the client, or the guest that called, is told.
    pub fn code(&self) -> Code {
        match self {
            StateError::TooLarge { .. } => Code::InvalidArgument,
            StateError::Full | StateError::OverLimit { .. } => Code::ResourceExhausted,
            StateError::NoTransactions => Code::FailedPrecondition,
            // The write may or may not have reached the disk.
            StateError::Failed { .. } => Code::Unavailable,
        }
    }
}

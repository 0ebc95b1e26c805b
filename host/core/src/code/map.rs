//! The only place that maps errors to gRPC codes. A code is chosen by how the caller reacts to it:
//!
//!  * external-provisioner retries for ever on Unavailable, Aborted, Cancelled and DeadlineExceeded ("may still be running"), and
//!    reschedules on ResourceExhausted (`checkError` in its controller.go);
//!  * kubelet treats Canceled, DeadlineExceeded, Unavailable, ResourceExhausted and Aborted as *uncertain* and will clean up; any other
//!    code of stage or publish means to it that nothing is mounted (`isFinalError` in its csi_client.go).
//!
//! An error whose work may still be under way is therefore never `Internal`.

use super::Code;
use crate::backend::BackendError;
use crate::error::Error;
use crate::mounter::MountError;
use crate::state::StateError;

impl Error {
    /// The code that the client receives.
    pub fn code(&self) -> Code {
        match self {
            Error::NotOffered { .. } => Code::InvalidArgument,
            Error::Backend(error) => error.code(),
            Error::Mount(error) | Error::Plan { source: error, .. } => error.code(),
            Error::State(error) => error.code(),
            Error::InFlight { .. } | Error::SnapshotNotReady { .. } => Code::Aborted,
            Error::NotServed { .. } => Code::Unimplemented,
            Error::NoPlugin { .. }
            | Error::ShuttingDown
            | Error::Standby
            | Error::NoNewWork { .. }
            | Error::Quiesced => Code::Unavailable,
            Error::Precondition(_) => Code::FailedPrecondition,
            Error::StillUnderWay { .. } => Code::DeadlineExceeded,
            Error::Lost { .. } => Code::Internal,
            Error::AfterEffect { .. } => Code::Aborted,
        }
    }
}

impl BackendError {
    /// The code that the client receives.
    pub fn code(&self) -> Code {
        match self {
            BackendError::Answered { code, .. }
            | BackendError::Refused { code, .. }
            | BackendError::HostFailed { code, .. } => *code,
            // The instance and its work are discarded: final, unless it has changed something (`Error::after_effect`).
            BackendError::Trapped { .. } | BackendError::BadAnswer { .. } => Code::Internal,
            BackendError::OverLimit { .. } => Code::ResourceExhausted,
            // A request that it sent to a remote system may still take effect.
            BackendError::OutOfTime { .. } => Code::DeadlineExceeded,
            // Never a client's call: those are made to a version that serves.
            BackendError::Withheld { .. }
            | BackendError::Busy { .. }
            | BackendError::MemoryBusy { .. }
            | BackendError::Cancelled => Code::Unavailable,
            BackendError::NotOffered { .. } => Code::Unimplemented,
        }
    }
}

impl MountError {
    /// The code that the client, or the calling guest, receives.
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
    /// The code that the client, or the calling guest, receives.
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

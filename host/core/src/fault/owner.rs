//! Who is responsible for each error: one table over all of them. Only errors of the plugin count against its version.

use super::FaultKind;
use crate::backend::BackendError;
use crate::blame::{Owner, RequestContent};
use crate::error::Error;
use crate::mounter::MountError;

impl Error {
    /// Who is responsible, given the request.
    pub fn owner(&self, request: RequestContent<'_>) -> Owner {
        match self {
            // The client broke a rule of CSI, or requested an object or a feature that does not exist.
            Error::NotServed { .. } | Error::NotOffered { .. } | Error::Precondition(_) => {
                Owner::Request
            }
            // The cause of the failure is responsible, not the earlier change.
            Error::AfterEffect { source } => source.owner(request),
            Error::Backend(error) => error.owner(request),
            Error::Mount(error) | Error::Plan { source: error, .. } => error.owner(request),
            // A full or failing disk.
            Error::State(_) => Owner::Storage,
            // Work continues, and the retry finds it done.
            Error::InFlight { .. }
            | Error::SnapshotNotReady { .. }
            | Error::StillUnderWay { .. } => Owner::Storage,
            // The call was served by no version that could be responsible.
            Error::NoPlugin { .. } | Error::NoNewWork { .. } | Error::Quiesced => {
                Owner::Administrator
            }
            Error::ShuttingDown | Error::Standby | Error::Lost { .. } => Owner::Host,
        }
    }
}

impl BackendError {
    /// Who is responsible, given the request.
    pub fn owner(&self, request: RequestContent<'_>) -> Owner {
        match self {
            // A plugin must answer any request: if data makes it trap or exceed its memory, its code is at fault. The rollback decides that a single
            // request is not enough evidence, not this table.
            BackendError::Trapped { .. }
            | BackendError::OverLimit { .. }
            | BackendError::OutOfTime { .. } => Owner::Plugin,
            BackendError::BadAnswer { blame, .. } | BackendError::Refused { blame, .. } => {
                blame.owner(request)
            }
            // A plugin that returns an error has done its work.
            BackendError::Answered { .. } | BackendError::NotOffered { .. } => Owner::Request,
            // The clients cause that many concurrent calls, or the limit is too low for them.
            BackendError::Busy { .. } | BackendError::MemoryBusy { .. } => Owner::Administrator,
            BackendError::HostFailed { .. } => Owner::Storage,
            BackendError::Withheld { .. } | BackendError::Cancelled => Owner::Host,
        }
    }
}

impl MountError {
    /// Who is responsible, given the request.
    pub fn owner(&self, request: RequestContent<'_>) -> Owner {
        match self {
            MountError::Invalid { blame, .. } | MountError::NotGranted { blame, .. } => {
                blame.owner(request)
            }
            // The client is responsible for paths, their order and duplicate requests.
            MountError::OutsideRoots { .. }
            | MountError::NotStaged { .. }
            | MountError::Precondition { .. }
            | MountError::AlreadyExists { .. }
            | MountError::InUse { .. }
            | MountError::OutOfRange { .. }
            | MountError::Unsupported { .. } => Owner::Request,
            // A pod has written it, or it was removed.
            MountError::NotFound { .. }
            | MountError::Unusable { .. }
            | MountError::Damaged { .. } => Owner::Content,
            MountError::NoSpace { .. }
            | MountError::Hung { .. }
            | MountError::UnderWay { .. }
            | MountError::OutOfThreads { .. }
            | MountError::Kernel { .. } => Owner::Storage,
            MountError::OutOfResources { .. }
            | MountError::Tool { .. }
            | MountError::Unreachable { .. } => Owner::Host,
        }
    }
}

impl FaultKind {
    /// Who is responsible.
    pub fn owner(self) -> Owner {
        match self {
            Self::Trapped
            | Self::OverLimit
            | Self::OutOfTime
            | Self::BadAnswer
            | Self::Refused
            | Self::NotGranted => Owner::Plugin,
            // Its clients are responsible, or no version is.
            Self::Busy | Self::NotLoaded => Owner::Administrator,
        }
    }
}

#[cfg(test)]
mod tests;

//! Who has to mend each error: one table over all of them. Only what is the plugin's own counts against its version.

use super::FaultKind;
use crate::backend::BackendError;
use crate::blame::{Asked, Owner};
use crate::error::Error;
use crate::mounter::MountError;

impl Error {
    /// Whose fault it is, if this was asked.
    pub fn owner(&self, asked: Asked<'_>) -> Owner {
        match self {
            // The client broke a rule of CSI, or asked for what is not there or not offered.
            Error::Invalid(_)
            | Error::NotServed { .. }
            | Error::NotOffered { .. }
            | Error::Precondition(_) => Owner::Request,
            // What failed it is at fault, not that something was changed before.
            Error::AfterEffect { source } => source.owner(asked),
            Error::Backend(error) => error.owner(asked),
            Error::Mount(error) | Error::Plan { source: error, .. } => error.owner(asked),
            // A full or failing disk.
            Error::State(_) => Owner::Storage,
            // Work goes on, and the retry finds it done.
            Error::InFlight { .. }
            | Error::SnapshotNotReady { .. }
            | Error::StillUnderWay { .. } => Owner::Storage,
            // No version that could be at fault served the call.
            Error::NoPlugin { .. } | Error::NoNewWork { .. } | Error::Held => Owner::Administrator,
            Error::ShuttingDown | Error::StandingBy | Error::Lost { .. } => Owner::Host,
        }
    }
}

impl BackendError {
    /// Whose fault it is, if this was asked.
    pub fn owner(&self, asked: Asked<'_>) -> Owner {
        match self {
            // Whatever a request says, a plugin answers it: that data made it trap or swell is a fault of its code. That one request alone
            // does not speak for many is the rollback's rule, not this one's.
            BackendError::Trapped { .. }
            | BackendError::OverLimit { .. }
            | BackendError::OutOfTime { .. } => Owner::Plugin,
            BackendError::BadAnswer { blame, .. } | BackendError::Refused { blame, .. } => {
                blame.owner(asked)
            }
            // A plugin that says no has done its work.
            BackendError::Answered { .. } | BackendError::NotOffered { .. } => Owner::Request,
            // So many calls at a time are the clients', or the limit is too low for them.
            BackendError::Busy { .. } | BackendError::MemoryBusy { .. } => Owner::Administrator,
            BackendError::HostFailed { .. } => Owner::Storage,
            BackendError::Cancelled => Owner::Host,
        }
    }
}

impl MountError {
    /// Whose fault it is, if this was asked.
    pub fn owner(&self, asked: Asked<'_>) -> Owner {
        match self {
            MountError::Invalid { blame, .. } | MountError::NotGranted { blame, .. } => {
                blame.owner(asked)
            }
            // Paths, their order and what is wanted twice are the client's.
            MountError::OutsideRoots { .. }
            | MountError::NotStaged { .. }
            | MountError::Precondition { .. }
            | MountError::AlreadyExists { .. }
            | MountError::InUse { .. }
            | MountError::OutOfRange { .. }
            | MountError::Unsupported { .. } => Owner::Request,
            // A pod has written it, or somebody has taken it away.
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
    /// Whose fault it is.
    pub fn owner(self) -> Owner {
        match self {
            Self::Trapped
            | Self::OverLimit
            | Self::OutOfTime
            | Self::BadAnswer
            | Self::Refused
            | Self::NotGranted => Owner::Plugin,
            // Its clients', or no version's.
            Self::Busy | Self::NotLoaded => Owner::Administrator,
        }
    }
}

#[cfg(test)]
mod tests;

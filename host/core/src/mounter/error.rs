//! Why a request to the mounter failed.

use crate::blame::Blame;
use serde::{Deserialize, Serialize};

/// Why the mounter rejected a request or failed. Crosses the process boundary, so it is plain data; [`crate::code`] maps each variant to a code. No
/// variant contains a secret or a file's content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum MountError {
    /// The path is not strictly below a root that the administrator configured, or contains a symbolic link.
    #[error("{path} is refused: {reason}; paths must lie below {roots}")]
    OutsideRoots {
        /// The client's spelling, escaped and shortened.
        path: String,
        /// The violated rule.
        reason: String,
        /// The roots, for the administrator.
        roots: String,
    },
    /// An object does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// The object.
        what: String,
    },
    /// Publish before stage.
    #[error("volume is not staged at {path}: call NodeStageVolume first")]
    NotStaged {
        /// The staging path.
        path: String,
    },
    /// The client did not make what it must make.
    #[error("{path} is missing: {what}")]
    Precondition {
        /// The path.
        path: String,
        /// The expected object.
        what: String,
    },
    /// The object exists already, in another form.
    #[error("{what} already exists: {difference}")]
    AlreadyExists {
        /// The object.
        what: String,
        /// The difference to the request.
        difference: String,
    },
    /// In use, so it cannot be removed, replaced or published once more.
    #[error("{what} is in use: {by}")]
    InUse {
        /// The object.
        what: String,
        /// The user, as far as known.
        by: String,
    },
    /// The plan needs a grant that the administrator did not give.
    #[error("step `{step}` is not granted: {reason}")]
    NotGranted {
        /// The step's name in the contract.
        step: String,
        /// The missing grant, and where it is configured.
        reason: String,
        /// Who is responsible.
        blame: Blame,
    },
    /// The plan or pool call is not valid.
    #[error("{what} is not valid: {reason}")]
    Invalid {
        /// The argument.
        what: String,
        /// The reason.
        reason: String,
        /// Who is responsible.
        blame: Blame,
    },
    /// The content or the state of the storage forbids the operation. An administrator must inspect it; a retry does not help before.
    #[error("{what} cannot be used: {reason}")]
    Unusable {
        /// The object.
        what: String,
        /// The reason and what to do.
        reason: String,
    },
    /// The file system is damaged beyond automatic repair.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// The object.
        what: String,
        /// The damage and what to do.
        reason: String,
    },
    /// A program that the host runs failed, or is not installed.
    #[error("`{tool}` failed on {object}: {text}")]
    Tool {
        /// The program.
        tool: String,
        /// The object of the program.
        object: String,
        /// The end of its output, with what to do where that is known.
        text: String,
    },
    /// A size that the volume cannot have, or an offset outside of it.
    #[error("{what} is out of range: {reason}")]
    OutOfRange {
        /// The object.
        what: String,
        /// The figures.
        reason: String,
    },
    /// This host, kernel or file system cannot do it.
    #[error("{what} is not supported here: {reason}")]
    Unsupported {
        /// The object.
        what: String,
        /// The reason.
        reason: String,
    },
    /// No space, inodes or quota left, or all free space is promised.
    #[error("no space for {what}: {reason}")]
    NoSpace {
        /// The consumer.
        what: String,
        /// The figures.
        reason: String,
    },
    /// Every thread of the driver's budget waits for storage that does not answer. No work was started.
    #[error("no thread is free for {what}: {reason}")]
    OutOfThreads {
        /// The owner of the budget.
        what: String,
        /// Since when, and what to do.
        reason: String,
    },
    /// The host or its node has run out of file descriptors or memory. A retry may succeed.
    #[error("{what} failed for want of resources: {reason}")]
    OutOfResources {
        /// System call or step, and its object.
        what: String,
        /// The resource and what to do.
        reason: String,
    },
    /// Storage does not answer.
    #[error("{what} is not answering: {reason}")]
    Hung {
        /// The object.
        what: String,
        /// Since when, and what to do.
        reason: String,
    },
    /// The same long work is still running; a retry finds it done.
    #[error("{what} is still under way")]
    UnderWay {
        /// The work.
        what: String,
    },
    /// The kernel returned an error.
    #[error("{operation} on {object} failed: {text}")]
    Kernel {
        /// System call or step.
        operation: String,
        /// The object.
        object: String,
        /// The error number, which determines the code.
        errno: i32,
        /// The error as text, with what to do where that is known.
        text: String,
    },
    /// The mounter cannot be reached.
    #[error("the mounter does not answer: {reason}")]
    Unreachable {
        /// The reason.
        reason: String,
    },
}

impl MountError {
    /// [`MountError::NotFound`].
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    /// [`MountError::AlreadyExists`].
    pub fn already_exists(what: impl Into<String>, difference: impl Into<String>) -> Self {
        Self::AlreadyExists {
            what: what.into(),
            difference: difference.into(),
        }
    }

    /// [`MountError::InUse`].
    pub fn in_use(what: impl Into<String>, by: impl Into<String>) -> Self {
        Self::InUse {
            what: what.into(),
            by: by.into(),
        }
    }

    /// [`MountError::Unusable`].
    pub fn unusable(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Unusable {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// [`MountError::Unreachable`].
    pub fn unreachable(reason: impl Into<String>) -> Self {
        Self::Unreachable {
            reason: reason.into(),
        }
    }
}

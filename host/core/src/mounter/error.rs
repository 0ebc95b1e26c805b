//! Why a request to the mounter failed.

use crate::blame::Blame;
use serde::{Deserialize, Serialize};

/// Why the mounter refused or failed. Crosses the process boundary, so it is plain data; what each means to a client stands in
/// [`crate::code`]. No variant holds a secret or a file's content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum MountError {
    /// The path is not strictly below a root that the administrator named, or leads through a symbolic link.
    #[error("{path} is refused: {reason}; paths must lie below {roots}")]
    OutsideRoots {
        /// As the client spelled it, escaped and shortened.
        path: String,
        /// What is wrong with it.
        reason: String,
        /// The roots, for the administrator.
        roots: String,
    },
    /// Nothing is there.
    #[error("{what} does not exist")]
    NotFound {
        /// What was looked for.
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
        /// Which path.
        path: String,
        /// What was expected.
        what: String,
    },
    /// There already, in another form.
    #[error("{what} already exists: {difference}")]
    AlreadyExists {
        /// What.
        what: String,
        /// How it differs from what is wanted.
        difference: String,
    },
    /// In use, so it cannot be removed, replaced or published once more.
    #[error("{what} is in use: {by}")]
    InUse {
        /// What.
        what: String,
        /// By whom, as far as known.
        by: String,
    },
    /// The plan wants what the administrator did not grant.
    #[error("step `{step}` is not granted: {reason}")]
    NotGranted {
        /// The step's name in the contract.
        step: String,
        /// Which grant is missing, and where it is given.
        reason: String,
        /// Whose fault that is.
        blame: Blame,
    },
    /// The plan or pool call makes no sense.
    #[error("{what} is not valid: {reason}")]
    Invalid {
        /// Which argument.
        what: String,
        /// Why.
        reason: String,
        /// Whose fault that is.
        blame: Blame,
    },
    /// What the storage holds, or the state it is in, forbids it. A person must look at it; a retry will not help before.
    #[error("{what} cannot be used: {reason}")]
    Unusable {
        /// What.
        what: String,
        /// Why, what to do.
        reason: String,
    },
    /// The file system is damaged beyond what may be mended without a person.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// What.
        what: String,
        /// What was found, what to do.
        reason: String,
    },
    /// A program that the host runs failed, or is not installed.
    #[error("`{tool}` failed on {object}: {text}")]
    Tool {
        /// The program.
        tool: String,
        /// On what.
        object: String,
        /// The end of what it said, with what to do where that is known.
        text: String,
    },
    /// A size that the volume cannot have, or an offset that it has not.
    #[error("{what} is out of range: {reason}")]
    OutOfRange {
        /// What.
        what: String,
        /// Figures.
        reason: String,
    },
    /// This host, kernel or file system cannot do it.
    #[error("{what} is not supported here: {reason}")]
    Unsupported {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// No space, inodes or quota left, or none that is not promised.
    #[error("no space for {what}: {reason}")]
    NoSpace {
        /// For what.
        what: String,
        /// Figures.
        reason: String,
    },
    /// Every thread of the driver's budget waits for storage that does not answer. Nothing was begun.
    #[error("no thread is free for {what}: {reason}")]
    OutOfThreads {
        /// Whose budget.
        what: String,
        /// Since when, what to do.
        reason: String,
    },
    /// The host or its node is out of file descriptors or memory. A retry may find some.
    #[error("{what} failed for want of resources: {reason}")]
    OutOfResources {
        /// System call or step, and on what.
        what: String,
        /// Which resource, what to do.
        reason: String,
    },
    /// Storage does not answer.
    #[error("{what} is not answering: {reason}")]
    Hung {
        /// What.
        what: String,
        /// Since when, what to do.
        reason: String,
    },
    /// The same long work is under way; the retry finds it done.
    #[error("{what} is still under way")]
    UnderWay {
        /// Which work.
        what: String,
    },
    /// The kernel refused.
    #[error("{operation} on {object} failed: {text}")]
    Kernel {
        /// System call or step.
        operation: String,
        /// On what.
        object: String,
        /// The error number, for the code.
        errno: i32,
        /// The error in words, with what to do where that is known.
        text: String,
    },
    /// The mounter cannot be reached.
    #[error("the mounter does not answer: {reason}")]
    Unreachable {
        /// Why.
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

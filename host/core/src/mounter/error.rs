//! Why a request to the mounter failed.

use crate::blame::Blame;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Why the mounter rejected a request or failed, with the message. Crosses the process boundary, so it is plain data; [`crate::code`] maps each variant
/// to a code. No message contains a secret or a file's content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum MountError {
    /// The path is not strictly below a root that the administrator configured, or contains a symbolic link.
    #[error("{0}")]
    OutsideRoots(String),
    /// An object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Publish before stage.
    #[error("{0}")]
    NotStaged(String),
    /// The client did not make what it must make.
    #[error("{0}")]
    Precondition(String),
    /// The object exists already, in another form.
    #[error("{0}")]
    AlreadyExists(String),
    /// In use, so it cannot be removed, replaced or published once more.
    #[error("{0}")]
    InUse(String),
    /// The plan needs a grant that the administrator did not give.
    #[error("{text}")]
    NotGranted {
        /// The message.
        text: String,
        /// Who is responsible.
        blame: Blame,
    },
    /// The plan or pool call is not valid.
    #[error("{text}")]
    Invalid {
        /// The message.
        text: String,
        /// Who is responsible.
        blame: Blame,
    },
    /// The content or the state of the storage forbids the operation. An administrator must inspect it; a retry does not help before.
    #[error("{0}")]
    Unusable(String),
    /// The file system is damaged beyond automatic repair.
    #[error("{0}")]
    Damaged(String),
    /// A program that the host runs failed, or is not installed.
    #[error("{0}")]
    Tool(String),
    /// A size that the volume cannot have, or an offset outside of it.
    #[error("{0}")]
    OutOfRange(String),
    /// This host, kernel or file system cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// No space, inodes or quota left, or all free space is promised.
    #[error("{0}")]
    NoSpace(String),
    /// Every thread of the driver's budget waits for storage that does not answer. No work was started.
    #[error("{0}")]
    OutOfThreads(String),
    /// The host or its node has run out of file descriptors or memory. A retry may succeed.
    #[error("{0}")]
    OutOfResources(String),
    /// Storage does not answer.
    #[error("{0}")]
    Hung(String),
    /// The same long work is still running; a retry finds it done.
    #[error("{0}")]
    UnderWay(String),
    /// The kernel returned an error.
    #[error("{text}")]
    Kernel {
        /// The error number.
        errno: i32,
        /// The message.
        text: String,
    },
    /// The mounter cannot be reached.
    #[error("{0}")]
    Unreachable(String),
}

impl MountError {
    /// `path` is the client's spelling, escaped and shortened; `roots` are the roots that it could lie below.
    pub fn outside_roots(path: impl Display, reason: impl Display, roots: impl Display) -> Self {
        Self::OutsideRoots(format!(
            "{path} is refused: {reason}; paths must lie below {roots}"
        ))
    }

    /// [`MountError::NotFound`].
    pub fn not_found(what: impl Display) -> Self {
        Self::NotFound(format!("{what} does not exist"))
    }

    /// `path` is the staging path.
    pub fn not_staged(path: impl Display) -> Self {
        Self::NotStaged(format!(
            "volume is not staged at {path}: call NodeStageVolume first"
        ))
    }

    /// `what` is the object that is expected at the path.
    pub fn precondition(path: impl Display, what: impl Display) -> Self {
        Self::Precondition(format!("{path} is missing: {what}"))
    }

    /// `difference` is that to the request.
    pub fn already_exists(what: impl Display, difference: impl Display) -> Self {
        Self::AlreadyExists(format!("{what} already exists: {difference}"))
    }

    /// `by` is the user, as far as known.
    pub fn in_use(what: impl Display, by: impl Display) -> Self {
        Self::InUse(format!("{what} is in use: {by}"))
    }

    /// `step` is its name in the contract; `reason` names the missing grant, and where it is configured.
    pub fn not_granted(step: impl Display, reason: impl Display, blame: Blame) -> Self {
        let text = format!("step `{step}` is not granted: {reason}");
        Self::NotGranted { text, blame }
    }

    /// [`MountError::Invalid`].
    pub fn invalid(what: impl Display, reason: impl Display, blame: Blame) -> Self {
        let text = format!("{what} is not valid: {reason}");
        Self::Invalid { text, blame }
    }

    /// `reason` includes what to do.
    pub fn unusable(what: impl Display, reason: impl Display) -> Self {
        Self::Unusable(format!("{what} cannot be used: {reason}"))
    }

    /// `reason` is the damage and what to do.
    pub fn damaged(what: impl Display, reason: impl Display) -> Self {
        Self::Damaged(format!("{what} is damaged: {reason}"))
    }

    /// `text` is the end of its output, with what to do where that is known.
    pub fn tool(tool: impl Display, object: impl Display, text: impl Display) -> Self {
        Self::Tool(format!("`{tool}` failed on {object}: {text}"))
    }

    /// `reason` has the figures.
    pub fn out_of_range(what: impl Display, reason: impl Display) -> Self {
        Self::OutOfRange(format!("{what} is out of range: {reason}"))
    }

    /// [`MountError::Unsupported`].
    pub fn unsupported(what: impl Display, reason: impl Display) -> Self {
        Self::Unsupported(format!("{what} is not supported here: {reason}"))
    }

    /// `what` is the consumer; `reason` has the figures.
    pub fn no_space(what: impl Display, reason: impl Display) -> Self {
        Self::NoSpace(format!("no space for {what}: {reason}"))
    }

    /// `what` is the owner of the budget; `reason` states since when, and what to do.
    pub fn out_of_threads(what: impl Display, reason: impl Display) -> Self {
        Self::OutOfThreads(format!("no thread is free for {what}: {reason}"))
    }

    /// `what` is a system call or step and its object; `reason` is the resource and what to do.
    pub fn out_of_resources(what: impl Display, reason: impl Display) -> Self {
        Self::OutOfResources(format!("{what} failed for want of resources: {reason}"))
    }

    /// `reason` states since when, and what to do.
    pub fn hung(what: impl Display, reason: impl Display) -> Self {
        Self::Hung(format!("{what} is not answering: {reason}"))
    }

    /// `what` is the work.
    pub fn under_way(what: impl Display) -> Self {
        Self::UnderWay(format!("{what} is still under way"))
    }

    /// `operation` is a system call or step; `text` is the error, with what to do where that is known.
    pub fn kernel(
        operation: impl Display,
        object: impl Display,
        errno: i32,
        text: impl Display,
    ) -> Self {
        let text = format!("{operation} on {object} failed: {text}");
        Self::Kernel { errno, text }
    }

    /// [`MountError::Unreachable`].
    pub fn unreachable(reason: impl Display) -> Self {
        Self::Unreachable(format!("the mounter does not answer: {reason}"))
    }
}

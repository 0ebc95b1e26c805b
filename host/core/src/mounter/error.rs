//! Why a request to the mounter failed.

use crate::blame::Blame;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Why the mounter rejected a request or failed, with the message. Crosses the process boundary, so it is plain data; [`crate::code`] maps each variant
/// to a code. No message contains a secret or a file's content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub enum MountError {
    /// The path is not strictly below a root that the administrator configured, or contains a symbolic link.
    OutsideRoots(String),
    /// An object does not exist.
    NotFound(String),
    /// Publish before stage.
    NotStaged(String),
    /// The client did not make what it must make.
    Precondition(String),
    /// The object exists already, in another form.
    AlreadyExists(String),
    /// In use, so it cannot be removed, replaced or published once more.
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
    Unusable(String),
    /// The file system is damaged beyond automatic repair.
    Damaged(String),
    /// A program that the host runs failed, or is not installed.
    Tool(String),
    /// A size that the volume cannot have, or an offset outside of it.
    OutOfRange(String),
    /// This host, kernel or file system cannot do it.
    Unsupported(String),
    /// No space, inodes or quota left, or all free space is promised.
    NoSpace(String),
    /// Every thread of the driver's budget waits for storage that does not answer. No work was started.
    OutOfThreads(String),
    /// The host or its node has run out of file descriptors or memory. A retry may succeed.
    OutOfResources(String),
    /// Storage does not answer.
    Hung(String),
    /// The same long work is still running; a retry finds it done.
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
    Unreachable(String),
}

/// Constructors whose arguments are parts of the message.
macro_rules! messages {
    ($($(#[$doc:meta])+ $constructor:ident($($argument:ident),+) => $variant:ident, $text:literal;)+) => {$(
        $(#[$doc])+
        pub fn $constructor($($argument: impl Display),+) -> Self {
            Self::$variant(format!($text))
        }
    )+};
}

impl MountError {
    messages! {
        /// `path` is the client's spelling, escaped and shortened; `roots` are the roots that it could lie below.
        outside_roots(path, reason, roots)
            => OutsideRoots, "{path} is refused: {reason}; paths must lie below {roots}";
        /// [`MountError::NotFound`].
        not_found(what) => NotFound, "{what} does not exist";
        /// `path` is the staging path.
        not_staged(path) => NotStaged, "volume is not staged at {path}: call NodeStageVolume first";
        /// `what` is the object that is expected at the path.
        precondition(path, what) => Precondition, "{path} is missing: {what}";
        /// `difference` is that to the request.
        already_exists(what, difference) => AlreadyExists, "{what} already exists: {difference}";
        /// `by` is the user, as far as known.
        in_use(what, by) => InUse, "{what} is in use: {by}";
        /// `reason` includes what to do.
        unusable(what, reason) => Unusable, "{what} cannot be used: {reason}";
        /// `reason` is the damage and what to do.
        damaged(what, reason) => Damaged, "{what} is damaged: {reason}";
        /// `text` is the end of its output, with what to do where that is known.
        tool(tool, object, text) => Tool, "`{tool}` failed on {object}: {text}";
        /// `reason` has the figures.
        out_of_range(what, reason) => OutOfRange, "{what} is out of range: {reason}";
        /// [`MountError::Unsupported`].
        unsupported(what, reason) => Unsupported, "{what} is not supported here: {reason}";
        /// `what` is the consumer; `reason` has the figures.
        no_space(what, reason) => NoSpace, "no space for {what}: {reason}";
        /// `what` is the owner of the budget; `reason` states since when, and what to do.
        out_of_threads(what, reason) => OutOfThreads, "no thread is free for {what}: {reason}";
        /// `what` is a system call or step and its object; `reason` is the resource and what to do.
        out_of_resources(what, reason)
            => OutOfResources, "{what} failed for lack of resources: {reason}";
        /// `reason` states since when, and what to do.
        hung(what, reason) => Hung, "{what} is not answering: {reason}";
        /// `what` is the work.
        under_way(what) => UnderWay, "{what} is still under way";
        /// [`MountError::Unreachable`].
        unreachable(reason) => Unreachable, "the mounter does not answer: {reason}";
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

    /// The task that did the work panicked or was stopped.
    pub fn lost_worker() -> Self {
        Self::unreachable("its worker ended without an answer: this is a bug of the host")
    }
}

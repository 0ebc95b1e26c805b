//! Why a command of the project failed. One line each: the failed operation, its object, the next step.

use std::error::Error;
use std::fmt::Display;

/// A command of the project could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An operation failed, for the reason that another part of the system gave.
    #[error("cannot {what}: {source}")]
    Cannot {
        /// The failed operation, with its object.
        what: String,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Something is not as it must be: what, where, and what to do next.
    #[error("{0}")]
    Unexpected(String),
}

impl Failure {
    /// For `map_err`: `what` follows "cannot".
    pub fn cannot<E>(what: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let what = what.into();
        move |source| Failure::Cannot {
            what,
            source: source.into(),
        }
    }

    /// Something that the command needs is missing on the machine; `next` is how to provide it.
    pub fn missing(what: impl Display, next: impl Display) -> Self {
        Failure::Unexpected(format!("{what} is missing: {next}"))
    }
}

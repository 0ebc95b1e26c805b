//! Why a command of the project failed. One line each: the failed operation, its object, the next step.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// A command of the project could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something that the command needs is missing on the machine.
    #[error("{what} is missing: {next}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to provide it.
        next: String,
    },
    /// A program could not be started.
    #[error("cannot start `{command}`: {source}")]
    Start {
        /// The program with its arguments.
        command: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("`{command}` failed ({status}){words}")]
    Command {
        /// The program with its arguments.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its error output, after a colon; empty if it went to the terminal.
        words: String,
    },
    /// An operation on a file or a directory, or a system call.
    #[error("cannot {what}: {source}")]
    Io {
        /// The failed operation, with its object.
        what: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The driver ended or did not answer in time.
    #[error("the driver {how}; the end of its log:\n{tail}")]
    Driver {
        /// What it did.
        how: String,
        /// The last lines of its log.
        tail: String,
    },
    /// The driver did not accept a connection.
    #[error("cannot connect to {}: {source}", socket.display())]
    Connect {
        /// Its socket.
        socket: PathBuf,
        /// The transport's reason.
        source: tonic::transport::Error,
    },
    /// The API server returned an error, or did not answer.
    #[error("cannot {what}: {source}")]
    Kubernetes {
        /// The failed operation, with its object.
        what: String,
        /// The client's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file has unexpected content.
    #[error("{what}")]
    Unexpected {
        /// What is wrong, and where.
        what: String,
    },
    /// Findings of the demo.
    #[error("{bad} of the demo's findings are bad")]
    Findings {
        /// How many.
        bad: usize,
    },
    /// Interrupted by Ctrl-C, or a request to end.
    #[error("interrupted; everything was torn down")]
    Interrupted,
}

impl Failure {
    /// For `map_err` of I/O errors: `what` follows "cannot".
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Failure::Io { what, source }
    }

    /// The same for requests to Kubernetes.
    pub fn kubernetes<E>(what: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let what = what.into();
        move |source| Failure::Kubernetes {
            what,
            source: Box::new(source),
        }
    }
}

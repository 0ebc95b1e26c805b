//! Why a command of the project failed. One line each: what failed, on what, what to do next.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// A command of the project could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something of the machine that the command needs.
    #[error("{what} is missing: {next}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to do about it.
        next: String,
    },
    /// A program could not be started.
    #[error("cannot start `{command}`: {source}")]
    Start {
        /// The program with its arguments.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A program ran and said no.
    #[error("`{command}` failed ({status}){words}")]
    Command {
        /// The program with its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its last words, behind a colon; empty when they went to the terminal.
        words: String,
    },
    /// A file, a directory or a system call.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, on what.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The driver ended or stayed silent instead of answering.
    #[error("the driver {how}; the end of its log:\n{tail}")]
    Driver {
        /// What it did.
        how: String,
        /// The last lines of it.
        tail: String,
    },
    /// The driver did not take a connection.
    #[error("cannot connect to {}: {source}", socket.display())]
    Connect {
        /// Its socket.
        socket: PathBuf,
        /// The transport's reason.
        source: tonic::transport::Error,
    },
    /// The API server said no, or nothing.
    #[error("cannot {what}: {source}")]
    Kubernetes {
        /// What was tried, on what.
        what: String,
        /// The client's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file holds something else than expected.
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
    /// Ctrl-C, or a request to end.
    #[error("interrupted; everything was torn down")]
    Interrupted,
}

impl Failure {
    /// For `map_err` of input and output: `what` follows "cannot".
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Failure::Io { what, source }
    }

    /// The same of requests to Kubernetes.
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

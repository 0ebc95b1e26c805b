//! Why a command failed: the one error type of the binary, and the exit codes.
//!
//! A configuration that can never work is [`EX_USAGE`], so that a service manager need not try again; the state of the node may change.

use crate::config::Complaints;
use crate::visible;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use wasmount_control::ControlError;
use wasmount_core::text::chain;

/// Wrong flags or documents (BSD `sysexits.h`).
const EX_USAGE: u8 = 64;
/// Everything else that failed.
const EX_FAILURE: u8 = 1;

/// The error that ended a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The error of `clap`; `--help` and `--version` are returned in this way too.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A flag with a well-formed value that cannot work.
    #[error("{0}")]
    Flag(String),
    /// Errors in the documents.
    #[error("{0}")]
    Documents(#[from] Complaints),
    /// The command completed and printed its findings, and those are not well.
    #[error("not well")]
    Found,
    /// The host returned an error, or did not answer.
    #[error(transparent)]
    Admin(#[from] ControlError),
    /// Everything else that failed: what, why, and what to do.
    #[error("{0}")]
    Failed(String),
}

impl Fault {
    /// A flag with a well-formed value that cannot work. `reason`: why, and what would.
    pub(crate) fn flag(flag: &'static str, value: impl Display, reason: impl Display) -> Self {
        Self::Flag(format!("{flag} {value}: {reason}"))
    }

    /// Adds the failed operation to an error and its causes.
    pub(crate) fn failed<E>(what: impl Display) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let what = what.to_string();
        move |source| Self::Failed(format!("{what}: {}", chain(source.into().as_ref())))
    }

    /// Prints the error on standard error (help and version on standard output) and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let written = match self {
            Self::Usage(error) => error.print(),
            Self::Found => Ok(()),
            other => writeln!(
                io::stderr(),
                "wasmount: {}",
                visible::lines(&other.to_string())
            ),
        };
        // A closed standard error must not turn into another exit code, but help that was requested must be there. A reader that has seen enough
        // closes its pipe.
        if let (Self::Usage(error), Err(failed)) = (self, written)
            && !error.use_stderr()
            && failed.kind() != io::ErrorKind::BrokenPipe
        {
            let _ = writeln!(io::stderr(), "wasmount: the help is not written: {failed}");
            return ExitCode::from(EX_FAILURE);
        }
        match self {
            Self::Usage(error) if !error.use_stderr() => ExitCode::SUCCESS,
            Self::Usage(_)
            | Self::Flag(_)
            | Self::Documents(_)
            | Self::Admin(ControlError::NoDriver { .. }) => ExitCode::from(EX_USAGE),
            Self::Found | Self::Admin(_) | Self::Failed(_) => ExitCode::from(EX_FAILURE),
        }
    }
}

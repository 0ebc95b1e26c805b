//! Why a command failed: the one error type of the binary, and the exit codes.
//!
//! A configuration that can never work is [`EX_USAGE`], so that a service manager need not try again; the state of the node may change.

use crate::config::Complaints;
use crate::visible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use wasmount_control::ControlError;

/// Wrong flags or documents (BSD `sysexits.h`).
const EX_USAGE: u8 = 64;
/// Everything else that failed.
const EX_FAILURE: u8 = 1;

/// The error that ended a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The error of `clap`; `--help` and `--version` are returned in this way too.
    #[error(transparent)]
    Words(#[from] clap::Error),
    /// A flag with a well-formed value that cannot work.
    #[error("{flag} {value}: {reason}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
        /// Why it cannot work, and what would.
        reason: String,
    },
    /// Errors in the documents.
    #[error("{0}")]
    Documents(#[from] Complaints),
    /// A directory that the host must be able to write.
    #[error("cannot write {}: {source}; give {flag} a directory that this user may write", .path.display())]
    Unwritable {
        /// The flag that names it.
        flag: &'static str,
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The right to mount is missing.
    #[error(
        "{who} mounts volumes and needs the capability CAP_SYS_ADMIN, which this process lacks: run it as root (in a container: privileged), \
         in a namespace of its own (`unshare --map-root-user --mount wasmount serve ..`), or serve with --mounter or --role controller"
    )]
    NoMountRight {
        /// The role, or the command.
        who: &'static str,
    },
    /// The health address is in use, or does not belong to this machine.
    #[error(
        "cannot listen for health checks on {address}: {source}; choose another --listen-health, or `off`"
    )]
    HealthAddress {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The command completed and printed its findings, and those are not well.
    #[error("not well")]
    Found,
    /// The host returned an error, or did not answer.
    #[error(transparent)]
    Admin(#[from] ControlError),
    /// A part of the host could not be set up, or ended unexpectedly.
    #[error("{what}: {}", chain(.source.as_ref()))]
    Room {
        /// The failed operation.
        what: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Fault {
    /// Adds the failed operation to an error.
    pub(crate) fn room<E>(what: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let what = what.into();
        move |source| Self::Room {
            what,
            source: source.into(),
        }
    }

    /// Prints the error on standard error (help and version on standard output) and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // A closed standard error must not turn into another exit code.
        let said = match self {
            Self::Words(error) => error.print(),
            Self::Found => Ok(()),
            other => writeln!(
                io::stderr(),
                "wasmount: {}",
                visible::lines(&other.to_string())
            ),
        };
        drop(said);
        match self {
            Self::Words(asked) if !asked.use_stderr() => ExitCode::SUCCESS,
            Self::Words(_)
            | Self::Flag { .. }
            | Self::Documents(_)
            | Self::Admin(ControlError::NoDriver { .. }) => ExitCode::from(EX_USAGE),
            Self::Unwritable { .. }
            | Self::NoMountRight { .. }
            | Self::HealthAddress { .. }
            | Self::Found
            | Self::Admin(_)
            | Self::Room { .. } => ExitCode::from(EX_FAILURE),
        }
    }
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Many libraries repeat their cause in their own message.
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

//! Why a command ended otherwise than well: the one error type of the binary, and the exit codes.
//!
//! Configuration that can never work is [`EX_USAGE`], so that a service manager need not try again; what the node lacks may change.

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

/// What ended a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The command line as `clap` sees it; `--help` and `--version` come this way too.
    #[error(transparent)]
    Words(#[from] clap::Error),
    /// A flag whose value has the right form and cannot work.
    #[error("{flag} {value}: {reason}")]
    Flag {
        /// Which.
        flag: &'static str,
        /// What was given.
        value: String,
        /// Why it cannot work, and what would.
        reason: String,
    },
    /// The documents.
    #[error("{0}")]
    Documents(#[from] Complaints),
    /// A directory that the host must write.
    #[error("cannot write {}: {source}; give {flag} a directory that this user may write", .path.display())]
    Unwritable {
        /// Which flag names it.
        flag: &'static str,
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// No right to mount.
    #[error(
        "{who} mounts volumes and needs the capability CAP_SYS_ADMIN, which this process lacks: run it as root (in a container: privileged), \
         in a namespace of its own (`unshare --map-root-user --mount wasmount serve ..`), or serve with --mounter or --role controller"
    )]
    NoMountRight {
        /// The role, or the command.
        who: &'static str,
    },
    /// The health address is taken, or not ours.
    #[error(
        "cannot listen for health checks on {address}: {source}; choose another --listen-health, or `off`"
    )]
    HealthAddress {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The command did its work and printed what it found, which is not well.
    #[error("not well")]
    Found,
    /// The host that was asked says no, or nothing.
    #[error(transparent)]
    Admin(#[from] ControlError),
    /// A room could not be set up, or ended by itself.
    #[error("{what}: {}", chain(.source.as_ref()))]
    Room {
        /// What was tried.
        what: String,
        /// What the room said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Fault {
    /// Joins what was tried to what a room said.
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

    /// Says it on standard error (help and version on standard output) and gives the exit code.
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

/// An error and what caused it, in one line.
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

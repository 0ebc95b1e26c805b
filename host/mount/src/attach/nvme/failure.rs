//! Why a namespace is not attached, with what to do.

use super::subsystem::NotReady;
use crate::plan::attach::NvmeNamespace;
use rustix::io::Errno;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use wasmount_core::mounter::MountError;

/// Why an address has no controller.
#[derive(Debug)]
pub(super) struct Failure {
    address: SocketAddr,
    reason: Reason,
}

#[derive(Debug, Clone, Copy)]
enum Reason {
    NotTried,
    Refused(Errno),
}

/// Why a namespace cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The identity differs from what the kernel remembers.
    #[error(
        "namespace {id} at {at} is another one by now; nothing was read or written; look what the storage system maps there"
    )]
    Replaced { id: u32, at: String },
    #[error("{at} does not say which namespace it has ({errno})")]
    Silent { at: String, errno: Errno },
}

impl Failure {
    pub(super) fn of(address: SocketAddr, errno: Errno) -> Self {
        let reason = Reason::Refused(errno);
        Self { address, reason }
    }

    pub(super) fn not_tried(address: SocketAddr) -> Self {
        let reason = Reason::NotTried;
        Self { address, reason }
    }

    /// Whether the network or the storage system may be the reason, so that a later attempt can succeed.
    fn may_pass(&self) -> bool {
        match self.reason {
            Reason::NotTried => true,
            Reason::Refused(errno) => matches!(
                errno,
                Errno::TIMEDOUT
                    | Errno::CONNREFUSED
                    | Errno::CONNRESET
                    | Errno::HOSTUNREACH
                    | Errno::NETUNREACH
                    | Errno::AGAIN
                    | Errno::INTR
            ),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, reason } = self;
        let errno = match reason {
            Reason::NotTried => {
                return write!(f, "{address}: not tried, since others took too long");
            }
            Reason::Refused(errno) => *errno,
        };
        write!(f, "{address}: {}", std::io::Error::from(errno))?;
        match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV => {
                f.write_str("; load the kernel's module (`modprobe nvme-tcp`)")
            }
            Errno::INVAL => f.write_str(
                "; the kernel is older than 5.11, has no authentication, or knows this host by another id: see its log",
            ),
            _ if self.may_pass() => Ok(()),
            _ => f.write_str(
                "; the storage system does not know this host's NQN, or its keys are others: see the kernel's log",
            ),
        }
    }
}

impl Missing {
    /// The answer of the call. `failures`: of the addresses.
    pub(super) fn error(
        self,
        namespace: &NvmeNamespace,
        waited: Duration,
        failures: &[Failure],
    ) -> MountError {
        let NvmeNamespace { id, subsystem, .. } = namespace;
        let what = format!("namespace {id} of subsystem {}", subsystem.as_str());
        let mut reason = format!("{self} (waited {} ms)", waited.as_millis());
        for failure in failures {
            reason.push_str(&format!("; {failure}"));
        }
        let is_lasting = failures.iter().any(|failure| !failure.may_pass());
        match self {
            Self::Replaced { .. } | Self::NotReady(NotReady::NotJoined { .. }) => {
                MountError::unusable(what, reason)
            }
            _ if is_lasting => MountError::unusable(what, reason),
            Self::NotReady(NotReady::NoNamespace { .. }) if failures.is_empty() => {
                MountError::not_found(format!("{what}: {reason}"))
            }
            Self::NotReady(_) | Self::Silent { .. } => MountError::hung(what, reason),
        }
    }
}

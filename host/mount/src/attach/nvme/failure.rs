//! Why a namespace is not attached, with what to do.

use crate::plan::attach::NvmeNamespace;
use rustix::io::Errno;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use wasmount_core::mounter::MountError;

/// Why an address has no controller.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) address: SocketAddr,
    /// Why the kernel could not connect. `None`: it was not tried.
    pub(super) errno: Option<Errno>,
}

/// Why a namespace cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Missing {
    #[error("no controller is connected")]
    NoController,
    #[error("the subsystem has no such namespace for this host (controllers: {controllers})")]
    NoNamespace { controllers: String },
    #[error("{live} of {minimum} paths carry requests{others}")]
    FewPaths {
        live: usize,
        minimum: usize,
        others: String,
    },
    #[error(
        "it has {count} block devices, one for each path; turn on the kernel's multipath for NVMe (parameter `multipath` of nvme_core)"
    )]
    NotJoined { count: usize },
    /// The identity differs from what the kernel remembers.
    #[error(
        "namespace {id} at {at} is another one by now; nothing was read or written; look what the storage system maps there"
    )]
    Replaced { id: u32, at: String },
    #[error("{at} does not say which namespace it has ({errno})")]
    Silent { at: String, errno: Errno },
}

impl Failure {
    /// Whether the network or the storage system may be the reason, so that a later attempt can succeed.
    fn may_pass(&self) -> bool {
        matches!(
            self.errno,
            None | Some(
                Errno::TIMEDOUT
                    | Errno::CONNREFUSED
                    | Errno::CONNRESET
                    | Errno::HOSTUNREACH
                    | Errno::NETUNREACH
                    | Errno::AGAIN
                    | Errno::INTR
            )
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address;
        let Some(errno) = self.errno else {
            return write!(f, "{address}: not tried, since others took too long");
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
            Self::Replaced { .. } | Self::NotJoined { .. } => MountError::unusable(what, reason),
            _ if is_lasting => MountError::unusable(what, reason),
            Self::NoNamespace { .. } if failures.is_empty() => {
                MountError::not_found(format!("{what}: {reason}"))
            }
            Self::NoController
            | Self::NoNamespace { .. }
            | Self::FewPaths { .. }
            | Self::Silent { .. } => MountError::hung(what, reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::attach::TargetName;
    use uuid::Uuid;

    fn error(missing: Missing, failures: &[Failure]) -> MountError {
        let namespace = NvmeNamespace {
            addresses: Vec::new(),
            subsystem: TargetName::parse("nvme", "nqn.a", &["nqn."]).unwrap(),
            id: Uuid::from_u128(1),
            minimum_paths: 1,
            wait: Duration::ZERO,
        };
        missing.error(&namespace, Duration::from_secs(2), failures)
    }

    fn silent(errno: Errno) -> Missing {
        let at = "10.1.2.3:4420".to_owned();
        Missing::Silent { at, errno }
    }

    fn no_namespace() -> Missing {
        let controllers = "10.1.2.3:4420 live".to_owned();
        Missing::NoNamespace { controllers }
    }

    #[test]
    fn what_only_an_administrator_mends_is_unusable() {
        let at = "10.1.2.3:4420".to_owned();
        let replaced = error(Missing::Replaced { id: 7, at }, &[]);
        assert!(
            matches!(&replaced, MountError::Unusable(text)
                if text.contains("namespace 7 at 10.1.2.3:4420 is another one by now")),
            "{replaced}"
        );
        let several = error(Missing::NotJoined { count: 2 }, &[]);
        assert!(matches!(several, MountError::Unusable(_)), "{several}");
        let address = ([10, 1, 2, 4], 4420).into();
        let errno = Some(Errno::ACCESS);
        let refused = [Failure { address, errno }];
        for missing in [Missing::NoController, silent(Errno::INTR)] {
            let refused = error(missing, &refused);
            assert!(
                matches!(&refused, MountError::Unusable(text) if text.contains("NQN")),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_names_each_address() {
        let address = ([10, 1, 2, 4], 4420).into();
        let failures = [Some(Errno::TIMEDOUT), None].map(|errno| Failure { address, errno });
        for missing in [Missing::NoController, no_namespace(), silent(Errno::INTR)] {
            let hung = error(missing, &failures);
            assert!(
                matches!(&hung, MountError::Hung(text)
                    if text.matches("10.1.2.4:4420").count() == 2),
                "{hung}"
            );
        }
        // All addresses answered.
        let absent = error(no_namespace(), &[]);
        assert!(matches!(absent, MountError::NotFound(_)), "{absent}");
        assert!(matches!(
            error(silent(Errno::INTR), &[]),
            MountError::Hung(_)
        ));
    }
}

//! Errors of transfers from and to a registry, and of fetching a component.

use crate::signature::SignatureError;
use serde::{Deserialize, Serialize};

/// Why a transfer failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RegistryError {
    /// The registry does not answer.
    #[error(
        "the registry {host} cannot be reached: {reason}; check that it runs, its name and its port, and that this machine may connect to it"
    )]
    Down {
        /// Host of the registry.
        host: String,
        /// The error of the system.
        reason: String,
    },
    /// A time limit was reached.
    #[error(
        "{what}: the registry {host} was too slow: {reason}; try again when it is faster, or allow more time (--timeout of a command that has it)"
    )]
    Slow {
        /// What was requested.
        what: String,
        /// Host of the registry.
        host: String,
        /// Which limit was reached.
        reason: String,
    },
    /// The registry is overloaded or broken.
    #[error(
        "{what}: the registry {host} answered {status} in {attempts} attempts{words}; look at its log, or wait until it is less busy"
    )]
    Busy {
        /// What was requested.
        what: String,
        /// Host of the registry.
        host: String,
        /// The HTTP status.
        status: u16,
        /// The number of attempts.
        attempts: u32,
        /// The registry's own error message.
        words: String,
    },
    /// The bytes do not match the digest.
    #[error(
        "{what}: the registry sent bytes with the digest {got} instead of {wanted}; the registry or a proxy changed them: do not \
         use them, and push the artifact again"
    )]
    WrongDigest {
        /// What was requested.
        what: String,
        /// The expected digest.
        wanted: String,
        /// The digest of the received bytes.
        got: String,
    },
    /// The response ended early.
    #[error(
        "{what}: the answer of the registry {host} ended after {got} bytes, before its end{reason}; look at the registry, and at proxies before it"
    )]
    Truncated {
        /// What was requested.
        what: String,
        /// Host of the registry.
        host: String,
        /// The number of received bytes.
        got: u64,
        /// The error of the connection.
        reason: String,
    },
    /// The size does not match the manifest.
    #[error("{what}: it has {got} bytes, and its manifest says {wanted}; push the artifact again")]
    WrongSize {
        /// What was requested.
        what: String,
        /// The expected size, in bytes.
        wanted: u64,
        /// The number of bytes that were received, or announced.
        got: u64,
    },
    /// More bytes than the bound.
    #[error(
        "{what}: it is larger than {most} bytes, the most that is read of such a thing; it is no plugin"
    )]
    TooLarge {
        /// What was requested.
        what: String,
        /// The bound, in bytes.
        most: u64,
    },
    /// Not found.
    #[error(
        "{what}: the registry {host} has no such thing; check name and tag, and that it was pushed there"
    )]
    NotFound {
        /// What was requested.
        what: String,
        /// Host of the registry.
        host: String,
    },
    /// Any other response.
    #[error("{what}: the registry {host} answered {status}{words}; is it an OCI registry?")]
    Refused {
        /// What was requested.
        what: String,
        /// Host of the registry.
        host: String,
        /// The HTTP status.
        status: u16,
        /// The registry's own error message.
        words: String,
    },
    /// Any other reason, with what to do: a retry would fail in the same way.
    #[error("{0}")]
    Other(String),
    /// The response violates the specification.
    #[error(
        "{what}: the answer of the registry {host} is not as the OCI distribution specification says: {reason}"
    )]
    Malformed {
        /// What was requested.
        what: String,
        /// Host of the registry.
        host: String,
        /// What is wrong.
        reason: String,
    },
}

impl RegistryError {
    /// A short message, after the name of what was requested: a rejection with several of them goes into logs and Events.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::NotFound { .. } => "is not there".to_owned(),
            Self::WrongDigest { got, .. } => format!("has the digest {got}"),
            Self::WrongSize { wanted, got, .. } => {
                format!("has {got} bytes, and {wanted} are named")
            }
            Self::TooLarge { most, .. } => {
                format!("is larger than {most} bytes, the most that is read")
            }
            Self::Truncated { got, .. } => format!("ended after {got} bytes"),
            Self::Malformed { reason, .. } => format!("is not well-formed: {reason}"),
            error => format!("cannot be fetched: {error}"),
        }
    }
}

/// Why a component was not fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum FetchError {
    /// An error of the transfer.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The signatures do not suffice.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The component has another digest than expected.
    #[error(
        "{what} has the digest {got}, and {wanted} is wanted (`plugin.digest`); write the new digest if the change is meant, or name the artifact \
         by the digest of its manifest"
    )]
    AnotherComponent {
        /// Where it was found.
        what: String,
        /// The expected digest.
        wanted: String,
        /// The actual digest.
        got: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_short_names_the_fault() {
        let what = || "a signature".to_owned();
        for (error, text) in [
            (
                RegistryError::NotFound {
                    what: what(),
                    host: "r".to_owned(),
                },
                "is not there",
            ),
            (
                RegistryError::WrongSize {
                    what: what(),
                    wanted: 7,
                    got: 9,
                },
                "has 9 bytes, and 7 are named",
            ),
            (
                RegistryError::TooLarge {
                    what: what(),
                    most: 65_536,
                },
                "is larger than 65536 bytes, the most that is read",
            ),
        ] {
            assert_eq!(error.in_short(), text);
        }
    }
}

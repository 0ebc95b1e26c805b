//! Why an artifact was not moved, or a component not fetched.

use crate::signature::SignatureError;
use serde::{Deserialize, Serialize};

/// Why an artifact was not moved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RegistryError {
    /// It does not answer.
    #[error(
        "the registry {host} cannot be reached: {reason}; check that it runs, its name and its port, and that this machine may connect to it"
    )]
    Down {
        /// Its host.
        host: String,
        /// What the system said.
        reason: String,
    },
    /// It is not who it should be.
    #[error(
        "the registry {host} is not trusted: {reason}; name the certificate of its authority (`registry.caFile` in a document, --ca-file of a \
         command that has it), or `registry.plainHttp` and --plain-http for one without TLS"
    )]
    Untrusted {
        /// Its host.
        host: String,
        /// What is wrong with its certificate, or with the handshake.
        reason: String,
    },
    /// The certificates that are to be trusted.
    #[error(
        "the certificates to trust cannot be used: {reason}; name a file of certificates in PEM"
    )]
    BadCertificates {
        /// What is wrong.
        reason: String,
    },
    /// It took too long.
    #[error(
        "{what}: the registry {host} was too slow: {reason}; try again when it is faster, or allow more time (--timeout of a command that has it)"
    )]
    Slow {
        /// What was wanted.
        what: String,
        /// Its host.
        host: String,
        /// Which limit was met.
        reason: String,
    },
    /// It has no time for us, or is broken.
    #[error(
        "{what}: the registry {host} answered {status} in {attempts} attempts{words}; look at its log, or wait until it is less busy"
    )]
    Busy {
        /// What was wanted.
        what: String,
        /// Its host.
        host: String,
        /// The status of HTTP.
        status: u16,
        /// How often was asked.
        attempts: u32,
        /// What it said beside.
        words: String,
    },
    /// The bytes are others than were named.
    #[error(
        "{what}: the registry sent bytes with the digest {got} where {wanted} was asked for; it, or somebody on the way, changed them: do not \
         use them, and push the artifact again"
    )]
    WrongDigest {
        /// What was wanted.
        what: String,
        /// Its digest.
        wanted: String,
        /// That of what came.
        got: String,
    },
    /// It ended early.
    #[error(
        "{what}: the answer of the registry {host} ended after {got} bytes, before its end{reason}; look at the registry, and at proxies before it"
    )]
    Truncated {
        /// What was wanted.
        what: String,
        /// Its host.
        host: String,
        /// How many bytes came.
        got: u64,
        /// What the connection said.
        reason: String,
    },
    /// The size is another than was named.
    #[error("{what}: it has {got} bytes, and its manifest says {wanted}; push the artifact again")]
    WrongSize {
        /// What was wanted.
        what: String,
        /// Its size, in bytes.
        wanted: u64,
        /// How many bytes came, or would have come.
        got: u64,
    },
    /// More than is ever needed.
    #[error(
        "{what}: it is larger than {most} bytes, the most that is read of such a thing; it is no plugin"
    )]
    TooLarge {
        /// What was wanted.
        what: String,
        /// The bound, in bytes.
        most: u64,
    },
    /// Redirected too often.
    #[error(
        "{what}: the registry {host} sent us on more than {most} times; its redirects lead in a circle: mend its address, or that of its storage"
    )]
    RedirectLoop {
        /// What was wanted.
        what: String,
        /// The host that did so last.
        host: String,
        /// How many are followed.
        most: u32,
    },
    /// Redirected to where nothing may be sent.
    #[error(
        "{what}: {host} sends us on to `{location}`, {reason}; it is not followed: mend the registry's own address"
    )]
    BadRedirect {
        /// What was wanted.
        what: String,
        /// Who did so.
        host: String,
        /// Where to.
        location: String,
        /// Why that is not followed.
        reason: String,
    },
    /// It is not allowed.
    #[error(
        "{what}: the registry {host} does not allow it ({status}); {credentials}{words}: give credentials that may (`registry.credentials` in a \
         document, --registry-config of a command that has it)"
    )]
    Unauthorised {
        /// What was wanted.
        what: String,
        /// Its host.
        host: String,
        /// The status of HTTP.
        status: u16,
        /// Who asked.
        credentials: String,
        /// What it said beside.
        words: String,
    },
    /// There is none.
    #[error(
        "{what}: the registry {host} has no such thing; check name and tag, and that it was pushed there"
    )]
    NotFound {
        /// What was wanted.
        what: String,
        /// Its host.
        host: String,
    },
    /// Any other answer.
    #[error(
        "{what}: the registry {host} answered {status}{words}; is it a registry of OCI artifacts?"
    )]
    Refused {
        /// What was wanted.
        what: String,
        /// Its host.
        host: String,
        /// The status of HTTP.
        status: u16,
        /// What it said beside.
        words: String,
    },
    /// There is something, and it is no plugin.
    #[error("{what} is not a Wasm artifact: {reason}")]
    NotWasm {
        /// What was wanted.
        what: String,
        /// What it is, and what to do.
        reason: String,
    },
    /// Not what the specification says.
    #[error(
        "{what}: the answer of the registry {host} is not as the OCI distribution specification says: {reason}"
    )]
    Malformed {
        /// What was wanted.
        what: String,
        /// Its host.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// Another client writes there too.
    #[error(
        "{what}: somebody else writes to that tag too, and what we wrote was gone {attempts} times; try again when they have ended"
    )]
    Contended {
        /// What was written.
        what: String,
        /// How often.
        attempts: u32,
    },
    /// There is no room.
    #[error(
        "{what}: there would be more than {most}, and more are read by nobody; delete that tag, and try again"
    )]
    Full {
        /// What was to be added to.
        what: String,
        /// The bound.
        most: usize,
    },
}

impl RegistryError {
    /// In few words, behind the name of what was requested: a rejection with several of them goes into logs and Events.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::NotFound { .. } => "is not there".to_owned(),
            Self::WrongDigest { got, .. } => format!("came with the digest {got}"),
            Self::WrongSize { wanted, got, .. } => {
                format!("has {got} bytes, and {wanted} are named")
            }
            Self::TooLarge { most, .. } => {
                format!("is larger than {most} bytes, the most that is read")
            }
            Self::Truncated { got, .. } => format!("ended after {got} bytes"),
            Self::Malformed { reason, .. } => format!("is not well-formed: {reason}"),
            error => format!("cannot be had: {error}"),
        }
    }
}

/// Why a component is not had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum FetchError {
    /// Something between the registry and us.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The signatures.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// It is another one than was named.
    #[error(
        "{what} has the digest {got}, and {wanted} is wanted (`plugin.digest`); write the new digest if the change is meant, or name the artifact \
         by the digest of its manifest"
    )]
    AnotherComponent {
        /// Where it was found.
        what: String,
        /// The digest that was named.
        wanted: String,
        /// The digest that it has.
        got: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_short_names_the_fault() {
        let what = || "a signature".to_owned();
        for (error, words) in [
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
            assert_eq!(error.in_short(), words);
        }
    }
}

//! What can become of a child, each told apart: whoever asked must know whether the work is at fault, or the moment.

use std::io;

/// Mebibyte, for people.
const MEBIBYTE: u64 = 1 << 20;

/// A child that gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It never ran.
    #[error(
        "a process of its own cannot be started: {source}; look at the limits on processes and memory of this host"
    )]
    Start {
        /// What the system said.
        source: io::Error,
    },
    /// It ran, and did nothing since it could not give up its rights.
    #[error("the process could not be confined, so nothing was done: {words}")]
    Unconfined {
        /// Its own words.
        words: String,
    },
    /// A step of confining failed; said by the child.
    #[error("{step}: {source}")]
    Confine {
        /// Which.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It said no.
    #[error("{words}")]
    Refused {
        /// Its own words.
        words: String,
    },
    /// Its work needs more memory than it may have.
    #[error("it takes more than {} MiB of memory", .limit_bytes / MEBIBYTE)]
    Memory {
        /// What it may have.
        limit_bytes: u64,
    },
    /// Its work needs more of the processor than it may have.
    #[error("it takes more than {limit_seconds} s of CPU time")]
    Cpu {
        /// What it may have.
        limit_seconds: u64,
    },
    /// It was not done in time, and was killed.
    #[error("it takes longer than {limit_seconds} s")]
    Time {
        /// What it had.
        limit_seconds: u64,
    },
    /// It answered with more than anybody wants.
    #[error("its result is larger than {limit_bytes} bytes")]
    TooMuch {
        /// What it may answer.
        limit_bytes: u64,
    },
    /// Its program broke.
    #[error("the process broke down ({how}): {words}")]
    Crashed {
        /// Signal or status.
        how: String,
        /// Its last words.
        words: String,
    },
    /// Somebody killed it: a person, or the kernel when memory ran out.
    #[error(
        "the process was killed from outside; if nobody did, this machine or container has too little memory"
    )]
    Killed,
    /// Its answer could not be read.
    #[error("the process could not be heard: {source}")]
    Unheard {
        /// What the system said.
        source: io::Error,
    },
}

impl ChildError {
    /// Whether the work itself may be without fault: the same may well succeed a moment later, on a machine that is less busy.
    pub fn is_of_the_moment(&self) -> bool {
        match self {
            Self::Start { .. }
            | Self::Unconfined { .. }
            | Self::Confine { .. }
            | Self::Time { .. }
            | Self::Killed
            | Self::Unheard { .. } => true,
            Self::Refused { .. }
            | Self::Memory { .. }
            | Self::Cpu { .. }
            | Self::TooMuch { .. }
            | Self::Crashed { .. } => false,
        }
    }
}

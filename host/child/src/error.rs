//! How a child ended, and whether the work or the state of the machine is the cause: the caller must know which.

use crate::Bounds;
use rustix::process::Signal;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Mebibyte, for messages.
const MEBIBYTE: u64 = 1 << 20;

/// Why a child gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The child was not started.
    #[error(
        "a child process cannot be started: {source}; look at the limits on processes and memory of this host"
    )]
    Start {
        /// The error of the system.
        source: io::Error,
    },
    /// The child started, and did no work since it could not give up its rights.
    #[error("the process could not be confined, so nothing was done: {message}")]
    Unconfined {
        /// The child's message.
        message: String,
    },
    /// A step of confining failed; reported by the child.
    #[error("{step}: {source}")]
    Confine {
        /// The step.
        step: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The work rejected its input.
    #[error("{message}")]
    Refused {
        /// The child's message.
        message: String,
    },
    /// The work needs more memory than its limit.
    #[error("it takes more than {} MiB of memory", .limit_bytes / MEBIBYTE)]
    Memory {
        /// The limit.
        limit_bytes: u64,
    },
    /// The work needs more CPU time than its limit.
    #[error("it takes more than {limit_seconds} s of CPU time")]
    Cpu {
        /// The limit.
        limit_seconds: u64,
    },
    /// The time limit passed, and the child was killed.
    #[error("it takes longer than {limit_seconds} s")]
    Time {
        /// The limit.
        limit_seconds: u64,
    },
    /// The answer is larger than its limit.
    #[error("its result is larger than {limit_bytes} bytes")]
    TooMuch {
        /// The limit.
        limit_bytes: u64,
    },
    /// The child crashed.
    #[error("the process crashed ({how}): {message}")]
    Crashed {
        /// Signal or status.
        how: String,
        /// The end of its standard error.
        message: String,
    },
    /// Killed from outside: by an administrator, or by the kernel when memory ran out.
    #[error(
        "the process was killed from outside; or by the kernel: this machine or container has too little memory"
    )]
    Killed,
    /// Its answer could not be read.
    #[error("the output of the process cannot be read: {source}")]
    Unreadable {
        /// The error of the system.
        source: io::Error,
    },
}

impl ChildError {
    /// Whether the cause may be outside of the work: the same work may succeed a moment later, on a machine that is less busy.
    pub fn is_of_the_moment(&self) -> bool {
        match self {
            Self::Start { .. }
            | Self::Unconfined { .. }
            | Self::Confine { .. }
            | Self::Time { .. }
            | Self::Killed
            | Self::Unreadable { .. } => true,
            Self::Refused { .. }
            | Self::Memory { .. }
            | Self::Cpu { .. }
            | Self::TooMuch { .. }
            | Self::Crashed { .. } => false,
        }
    }
}

/// Exit status of a child whose work rejected its input.
pub(crate) const REFUSED: i32 = 1;
/// Exit status of a child that could not give up its rights: `EX_SOFTWARE` of BSD's `sysexits.h`.
pub(crate) const UNCONFINED: i32 = 70;

/// The message of Rust's runtime before it aborts because memory ran out.
const OUT_OF_MEMORY: &str = "memory allocation of ";
/// The message of the system where a library requested memory and passed the error on (`ENOMEM`).
const NO_MEMORY: &str = "Cannot allocate memory";
/// Replaces the message of a child that printed none.
const SILENCE: &str = "it wrote no message";

/// The answer of a child that the parent did not kill, or why there is none. `message` is the end of its standard error.
pub(crate) fn judge(
    status: ExitStatus,
    answer: Vec<u8>,
    message: String,
    bounds: &Bounds,
) -> Result<Vec<u8>, ChildError> {
    if status.success() {
        return Ok(answer);
    }
    let signal = status.signal().and_then(Signal::from_named_raw);
    if message.contains(OUT_OF_MEMORY) || message.contains(NO_MEMORY) {
        return Err(ChildError::Memory {
            limit_bytes: bounds.memory_bytes,
        });
    }
    Err(match (status.code(), signal) {
        (Some(REFUSED), _) => ChildError::Refused { message },
        (Some(UNCONFINED), _) => ChildError::Unconfined { message },
        (_, Some(Signal::XCPU)) => ChildError::Cpu {
            limit_seconds: bounds.cpu.as_secs(),
        },
        (_, Some(Signal::KILL)) => ChildError::Killed,
        _ => ChildError::Crashed {
            how: status.to_string(),
            message: match message.as_str() {
                "" => SILENCE.to_owned(),
                _ => message,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const ABORT: i32 = 6;

    fn bounds() -> Bounds {
        Bounds {
            memory_bytes: 3 << 20,
            cpu: Duration::from_secs(7),
            wall: Duration::from_secs(9),
            output_bytes: 1,
            network: false,
            readable: Vec::new(),
        }
    }

    fn judged(raw: i32, message: &str) -> Result<Vec<u8>, String> {
        let (status, answer) = (ExitStatus::from_raw(raw), b"answer".to_vec());
        let judged = judge(status, answer, message.to_owned(), &bounds());
        judged.map_err(|error| error.to_string())
    }

    fn exit(code: i32) -> i32 {
        code << 8
    }

    #[test]
    fn success_is_the_answer_whatever_was_said() {
        assert_eq!(judged(exit(0), "warning").unwrap(), b"answer");
    }

    #[test]
    fn each_exit_of_a_child_is_distinguished() {
        for (raw, message, expected) in [
            (exit(1), "no such thing", "no such thing"),
            (
                exit(70),
                "setrlimit: x",
                "the process could not be confined, so nothing was done: setrlimit: x",
            ),
            (
                ABORT,
                "memory allocation of 40 bytes failed",
                "it takes more than 3 MiB of memory",
            ),
            (
                exit(1),
                "mmap: Cannot allocate memory (os error 12)",
                "it takes more than 3 MiB of memory",
            ),
            (
                Signal::XCPU.as_raw(),
                "",
                "it takes more than 7 s of CPU time",
            ),
            (
                Signal::SEGV.as_raw(),
                "",
                "the process crashed (signal: 11 (SIGSEGV)): it wrote no message",
            ),
            (
                exit(101),
                "panicked at x",
                "the process crashed (exit status: 101): panicked at x",
            ),
        ] {
            assert_eq!(judged(raw, message).unwrap_err(), expected, "{raw}");
        }
    }

    #[test]
    fn what_is_of_the_moment_is_no_fault_of_the_work() {
        let error = |raw| {
            let status = ExitStatus::from_raw(raw);
            judge(status, Vec::new(), String::new(), &bounds()).unwrap_err()
        };
        assert!(error(Signal::KILL.as_raw()).is_of_the_moment());
        assert!(error(exit(70)).is_of_the_moment());
        for raw in [Signal::XCPU.as_raw(), ABORT, exit(1), exit(101)] {
            assert!(!error(raw).is_of_the_moment(), "{raw}");
        }
    }
}

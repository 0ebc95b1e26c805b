//! The gRPC status codes. They are in `core` since guests are told codes as well as clients.

mod map;

use serde::{Deserialize, Serialize};

named! {
    /// The gRPC status codes but OK, in the order of their numbers from 1 on. Frozen upstream.
    #[derive(Serialize, Deserialize)]
    #[allow(missing_docs, reason = "the names are gRPC's")]
    pub enum Code, name {
        Cancelled = "CANCELLED",
        Unknown = "UNKNOWN",
        InvalidArgument = "INVALID_ARGUMENT",
        DeadlineExceeded = "DEADLINE_EXCEEDED",
        NotFound = "NOT_FOUND",
        AlreadyExists = "ALREADY_EXISTS",
        PermissionDenied = "PERMISSION_DENIED",
        ResourceExhausted = "RESOURCE_EXHAUSTED",
        FailedPrecondition = "FAILED_PRECONDITION",
        Aborted = "ABORTED",
        OutOfRange = "OUT_OF_RANGE",
        Unimplemented = "UNIMPLEMENTED",
        Internal = "INTERNAL",
        Unavailable = "UNAVAILABLE",
        DataLoss = "DATA_LOSS",
        Unauthenticated = "UNAUTHENTICATED",
    }
}

impl Code {
    /// Its number on the wire.
    pub fn number(self) -> i32 {
        self as i32 + 1
    }

    /// Whether every caller repeats a call that failed so, and takes what it began for possibly there: kubelet and all sidecars.
    pub fn is_retried(self) -> bool {
        matches!(
            self,
            Code::Cancelled | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable
        )
    }

    /// What is answered in its place once the call has changed something. After a final code nobody would come back for that: with
    /// external-provisioner INTERNAL ends the care for a claim, and RESOURCE_EXHAUSTED moves it to another node. ABORTED is gRPC's word for
    /// a sequence that is to be begun anew; UNAVAILABLE would speak of the driver, DEADLINE_EXCEEDED of time.
    pub fn after_effect(self) -> Self {
        if self.is_retried() {
            self
        } else {
            Self::Aborted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_after_an_effect_is_one_that_is_retried() {
        for &code in Code::ALL {
            let answered = code.after_effect();
            assert!(answered.is_retried(), "{code:?}");
            assert_eq!(answered == code, code.is_retried(), "{code:?}");
        }
        assert!(!Code::Internal.is_retried() && !Code::ResourceExhausted.is_retried());
    }
}

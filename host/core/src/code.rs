//! The gRPC status codes. They are in `core` since both clients and guests receive them.

mod map;

use serde::{Deserialize, Serialize};

named! {
    /// The gRPC status codes except OK, in the order of their numbers from 1 on. Frozen upstream.
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

    /// Whether kubelet and all sidecars retry a call that failed with this code, and assume that its work may exist.
    pub fn is_retried(self) -> bool {
        matches!(
            self,
            Code::Cancelled | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable
        )
    }
}

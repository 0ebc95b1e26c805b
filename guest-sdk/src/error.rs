//! Failed calls: a gRPC code, which decides what Kubernetes does next, and a message, which the user reads in an event.
//!
//! It does not depend on a service: the codes that a function may return are listed at that function in `wit/wasmount.wit`.

pub use crate::bindings::imports::wasmount::csi::types::{Code, Error};

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident = $code:ident),+ $(,)?) => {
        impl Error {
            /// An error with any code. The message is shown to the user: it must not contain a secret.
            pub fn new(code: Code, message: impl Into<String>) -> Self {
                Self {
                    code,
                    message: message.into(),
                }
            }

            $($(#[$doc])* pub fn $name(message: impl Into<String>) -> Self {
                Self::new(Code::$code, message)
            })+
        }
    };
}

impl Error {
    /// For a look-up: `None` if what it looks for is not there.
    pub fn found<T>(looked_up: Result<T, Self>) -> Result<Option<T>, Self> {
        match looked_up {
            Err(error) if error.code == Code::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Whether the work may have happened, or may still happen: the client retries, so nothing of it must be cleaned up. After any other error the
    /// work has ended.
    pub fn is_uncertain(&self) -> bool {
        matches!(
            self.code,
            Code::Cancelled
                | Code::Unknown
                | Code::DeadlineExceeded
                | Code::Aborted
                | Code::Unavailable
        )
    }
}

constructors! {
    /// The call was cancelled.
    cancelled = Cancelled,
    /// A failure that fits no other code.
    unknown = Unknown,
    /// The request can never succeed as it is.
    invalid_argument = InvalidArgument,
    /// Not done in time; it may still happen. The client retries.
    deadline_exceeded = DeadlineExceeded,
    /// What the request names does not exist.
    not_found = NotFound,
    /// It exists, but does not match the request.
    already_exists = AlreadyExists,
    /// The storage system denies it.
    permission_denied = PermissionDenied,
    /// No space, or a limit of the storage system is reached.
    resource_exhausted = ResourceExhausted,
    /// Something else must happen first, such as a volume that must be unpublished.
    failed_precondition = FailedPrecondition,
    /// Another operation on the same object is under way. The client retries.
    aborted = Aborted,
    /// The requested size is not possible.
    out_of_range = OutOfRange,
    /// The backend cannot do this.
    unimplemented = Unimplemented,
    /// A bug of the backend.
    internal = Internal,
    /// The storage system does not answer. The client retries.
    unavailable = Unavailable,
    /// Data is lost or damaged.
    data_loss = DataLoss,
    /// The storage system does not accept the credentials.
    unauthenticated = Unauthenticated,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_is_no_error_of_a_look_up() {
        assert_eq!(Error::found(Ok(7)), Ok(Some(7)));
        let absent: Result<Option<()>, _> = Error::found(Err(Error::not_found("")));
        assert_eq!(absent, Ok(None));
        let other: Result<Option<()>, _> = Error::found(Err(Error::aborted("")));
        assert_eq!(other, Err(Error::aborted("")));
    }

    #[test]
    fn after_an_uncertain_error_the_work_may_go_on() {
        for code in [Code::Aborted, Code::Unavailable, Code::DeadlineExceeded] {
            assert!(Error::new(code, "").is_uncertain(), "{code:?}");
        }
        for code in [Code::NotFound, Code::ResourceExhausted, Code::OutOfRange] {
            assert!(!Error::new(code, "").is_uncertain(), "{code:?}");
        }
    }
}

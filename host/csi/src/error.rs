//! Why a call was not served: the words of the request, or what the driver says. No variant holds a value of the request.

use wasmount_core::code::Code;
use wasmount_core::names::InvalidWord;
use wasmount_core::rpc::Rpc;

/// A call that was not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A field is missing or malformed.
    #[error(transparent)]
    Invalid(#[from] InvalidWord),
    /// The specification has a code of its own for this one field.
    #[error("starting_offset is negative: begin at 0, or where the last extent that arrived ended")]
    NegativeOffset,
    /// Of another list, of another driver, or not ours at all.
    #[error(
        "starting_token is none that this driver gave for this list: begin anew, without a token"
    )]
    UnknownToken,
    /// The stream would never end.
    #[error(
        "the backend's page of snapshot metadata at offset {offset} goes on at {next}, which is not further: this is a fault of the plugin"
    )]
    NoProgress {
        /// Where the page began.
        offset: u64,
        /// Where it says the next one begins.
        next: u64,
    },
    /// Of a stream, which goes on for nobody.
    #[error(
        "the client's deadline passed before the end of {rpc}: begin again where the last extent that arrived ended"
    )]
    CutOff {
        /// Which call.
        rpc: Rpc,
    },
    /// The driver.
    #[error(transparent)]
    Driver(#[from] wasmount_core::error::Error),
}

impl Error {
    /// What the client is told.
    pub(crate) fn code(&self) -> Code {
        match self {
            // "Missing required field", "Invalid or unsupported field": both 3 (CSI specification, "Error Scheme").
            Error::Invalid(_) => Code::InvalidArgument,
            // "Invalid `starting_offset`": 11 (CSI specification, "GetMetadataAllocated Errors").
            Error::NegativeOffset => Code::OutOfRange,
            // "Invalid `starting_token`": 10 (CSI specification, "ListVolumes Errors" and those of the other lists).
            Error::UnknownToken => Code::Aborted,
            Error::NoProgress { .. } => Code::Internal,
            Error::CutOff { .. } => Code::DeadlineExceeded,
            Error::Driver(error) => error.code(),
        }
    }
}

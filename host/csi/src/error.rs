//! Why a call was not served: an error in the request, or an error of the driver. No variant contains a value of the request.

use wasmount_core::code::Code;
use wasmount_core::names::InvalidField;
use wasmount_core::rpc::Rpc;

/// A call that was not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A field is missing or malformed.
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    /// The specification defines a separate code for this field.
    #[error(
        "starting_offset is negative: begin at 0, or at the end of the last extent that was received"
    )]
    NegativeOffset,
    /// The token belongs to another list or another driver, or is not the host's.
    #[error(
        "starting_token was not issued by this driver for this list: list again without a token"
    )]
    UnknownToken,
    /// The deadline of a stream passed; the stream does not continue without its client.
    #[error(
        "the client's deadline passed before the end of {rpc}: repeat it with starting_offset at the end of the last extent that was received"
    )]
    CutOff {
        /// The RPC.
        rpc: Rpc,
    },
    /// An error of the driver.
    #[error(transparent)]
    Driver(#[from] wasmount_core::error::Error),
}

impl Error {
    /// The code that the client receives.
    pub(crate) fn code(&self) -> Code {
        match self {
            // "Missing required field", "Invalid or unsupported field": both 3 (CSI specification, "Error Scheme").
            Error::Invalid(_) => Code::InvalidArgument,
            // "Invalid `starting_offset`": 11 (CSI specification, "GetMetadataAllocated Errors").
            Error::NegativeOffset => Code::OutOfRange,
            // "Invalid `starting_token`": 10 (CSI specification, "ListVolumes Errors" and those of the other lists).
            Error::UnknownToken => Code::Aborted,
            Error::CutOff { .. } => Code::DeadlineExceeded,
            Error::Driver(error) => error.code(),
        }
    }
}

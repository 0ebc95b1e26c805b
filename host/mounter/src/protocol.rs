//! The protocol: its version, and how a `MounterRequest` and its response become bytes.
//!
//! A connection begins with one greeting each way, the client's first. Then requests and replies alternate, one at a time, as messages:
//!
//! ```text
//! greeting   "wasmount" · version, u32 · boot id, 16 bytes        the first 12 bytes are the same in every version
//! message    bytes that follow, u32 · postcard: Request, or Reply
//! ```
//!
//! Numbers are little-endian. The types of the trait cross as they are; each checks itself when it is read, so that no value can exist here
//! that `parse` would have rejected. **A change of a type that crosses, or of this file, adds one to [`VERSION`].**

use postcard::experimental::serialized_size;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;
use wasmount_core::mounter::{MountError, MounterRequest, MounterResponse};
use zeroize::Zeroizing;

/// The version of this file and of all types that are sent. Two processes with different versions reject each other.
pub const VERSION: u32 = 15;

/// The first bytes of a greeting, which no other protocol begins with.
const MAGIC: [u8; 8] = *b"wasmount";
/// Bytes of a greeting that are the same in every version.
pub(crate) const HEAD_BYTES: usize = MAGIC.len() + size_of::<u32>();
/// Largest message, in bytes. 8 MiB: twice the larger of a plan with 1 MiB of files and a page of 1,000 pool entries whose paths are all of 4 KiB.
pub(crate) const MESSAGE_BYTES: usize = 8 << 20;

/// A message; it may hold secrets, so it is zeroed when dropped and has no `Debug`.
pub(crate) type Message = Zeroizing<Vec<u8>>;

/// One run of a process: a random number. By it the server recognises a restarted client, and the client a restarted server.
pub type BootId = Uuid;

/// The greeting of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The version of the protocol.
    pub(crate) version: u32,
    /// The boot id of the sender; nil if its version is another one, whose greeting may have another format after the version.
    pub(crate) boot_id: BootId,
}

/// A part of the mounter's work, as a span: it has no network, and sends no traces itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Its attributes, as text.
    pub attributes: Vec<(String, String)>,
    /// The step that it is a part of, by its index; none: of the request.
    pub parent: Option<usize>,
    /// From the beginning of the request to its own.
    pub begin: Duration,
    /// From its beginning to its end; none: it had not ended before the reply.
    pub duration: Option<Duration>,
}

/// A request of a client. The first part: whether the steps are wanted.
pub(crate) type Request = (bool, MounterRequest);

/// The reply of a server, with the steps that led to it.
pub(crate) type Reply = (Result<MounterResponse, MountError>, Vec<Step>);

/// Why received bytes violate the protocol, or a message cannot be sent. The error never repeats the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// The first bytes of a connection.
    #[error("it does not begin with a greeting of this protocol")]
    NoGreeting,
    /// Detected before any of it is stored.
    #[error("a message of {bytes} bytes is larger than the limit of {MESSAGE_BYTES}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A value in it is invalid, or it is too short or too long.
    #[error("a message could not be read")]
    Unreadable,
    /// A type that postcard cannot serialize: none of ours.
    #[error("a message could not be written: this is a bug of the host")]
    Unwritable,
}

impl Greeting {
    /// The greeting of a process that was built with this file.
    pub(crate) fn of(boot_id: BootId) -> Self {
        Self {
            version: VERSION,
            boot_id,
        }
    }

    /// The greeting as it is sent.
    pub(crate) fn bytes(self) -> Vec<u8> {
        let Self { version, boot_id } = self;
        [&MAGIC[..], &version.to_le_bytes(), boot_id.as_bytes()].concat()
    }

    /// Parses the first bytes of a greeting.
    pub(crate) fn of_head(head: [u8; HEAD_BYTES]) -> Result<Self, Violation> {
        let version = head.strip_prefix(&MAGIC).and_then(|it| it.try_into().ok());
        Ok(Self {
            version: u32::from_le_bytes(version.ok_or(Violation::NoGreeting)?),
            boot_id: BootId::nil(),
        })
    }
}

/// Serializes a message into a buffer that never grows.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Message, Violation> {
    let bytes = serialized_size(value).map_err(|_| Violation::Unwritable)?;
    if bytes > MESSAGE_BYTES {
        return Err(Violation::TooLarge { bytes });
    }
    let mut message = Message::new(vec![0; bytes]);
    postcard::to_slice(value, &mut message).map_err(|_| Violation::Unwritable)?;
    Ok(message)
}

/// Deserializes a message and rejects trailing bytes.
pub(crate) fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, Violation> {
    match postcard::take_from_bytes(message) {
        Ok((value, [])) => Ok(value),
        _ => Err(Violation::Unreadable),
    }
}

#[cfg(test)]
mod tests;

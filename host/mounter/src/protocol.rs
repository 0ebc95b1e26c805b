//! The protocol: its version, and how a `MounterRequest` and its response become packets.
//!
//! A connection begins with one greeting each way, the client's first. Then requests and replies alternate, one at a time, as messages:
//!
//! ```text
//! greeting   "wasmount" · version, u32 · boot id, 16 bytes        one packet; the first 12 bytes are the same in every version
//! packet     bytes of the message that follow this packet, u32 · at most 16 KiB of the message
//! message    postcard: MounterRequest, or Result<MounterResponse, MountError>
//! ```
//!
//! Numbers are little-endian. The types of the trait cross as they are; each checks itself when it is read, so that no value can exist here
//! that `parse` would have rejected. **A change of a type that crosses, or of this file, adds one to [`VERSION`].**

use postcard::experimental::serialized_size;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasmount_core::mounter::{MountError, MounterResponse};
use zeroize::Zeroizing;

/// The version of this file and of all types that are sent. Two processes with different versions reject each other.
pub const VERSION: u32 = 4;

/// The first bytes of a greeting, which no other protocol begins with.
const MAGIC: [u8; 8] = *b"wasmount";
/// Bytes of a greeting.
pub(crate) const GREETING_BYTES: usize = MAGIC.len() + size_of::<u32>() + BOOT_ID_BYTES;
/// Bytes of a [`BootId`]: as many as a UUID has, so that no two are ever equal.
const BOOT_ID_BYTES: usize = 16;
/// Bytes before a packet's part of the message.
const HEADER_BYTES: usize = size_of::<u32>();
/// Most bytes of a message in one packet. 16 KiB: nearly every message is one packet, an idle connection keeps no larger buffer, and a packet is a
/// small part of the socket buffer that bounds it (`net.core.wmem_default`, 208 KiB).
const PART_BYTES: usize = 16 << 10;
/// Largest packet.
pub(crate) const PACKET_BYTES: usize = HEADER_BYTES + PART_BYTES;
/// Largest message, in bytes. 8 MiB: twice the larger of a plan with 1 MiB of files and a page of 1,000 pool entries whose paths are all of 4 KiB.
pub(crate) const MESSAGE_BYTES: usize = 8 << 20;

/// A message; it may hold secrets, so it is zeroed when dropped and has no `Debug`.
pub(crate) type Message = Zeroizing<Vec<u8>>;

/// One run of a process: a random number. By it the server recognises a restarted client, and the client a restarted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootId([u8; BOOT_ID_BYTES]);

/// The greeting of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The version of the protocol.
    pub(crate) version: u32,
    /// The boot id of the sender; zero if its version is another one, whose greeting may have another format after the version.
    pub(crate) boot_id: BootId,
}

/// The reply of a server.
pub(crate) type Reply = Result<MounterResponse, MountError>;

/// A message that is not complete yet.
#[derive(Default)]
pub(crate) struct Assembly {
    so_far: Message,
    missing: Option<usize>,
}

/// Why received bytes violate the protocol, or a message cannot be sent. The error never repeats the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// In the first packet.
    #[error("it does not begin with a greeting of this protocol")]
    NoGreeting,
    /// In any other packet.
    #[error("a packet of {bytes} bytes is none of this protocol")]
    Packet {
        /// Its length.
        bytes: usize,
    },
    /// Detected before any of it is stored.
    #[error("a message of {bytes} bytes is larger than the {MESSAGE_BYTES} that are taken")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Detected between two packets of a message.
    #[error("a message has {found} bytes to come where {expected} were announced")]
    OutOfStep {
        /// Announced before.
        expected: usize,
        /// Announced now.
        found: usize,
    },
    /// A value in it is invalid, or it is too short or too long.
    #[error("a message could not be read")]
    Unreadable,
    /// A type that postcard cannot serialize: none of ours.
    #[error("a message could not be written: this is a bug of the host")]
    Unwritable,
}

impl BootId {
    /// Generates a boot id.
    pub(crate) fn begin() -> std::io::Result<Self> {
        let mut boot_id = Self::UNKNOWN;
        rustix::rand::getrandom(&mut boot_id.0, rustix::rand::GetRandomFlags::empty())?;
        Ok(boot_id)
    }

    /// The boot id of a process with another version.
    const UNKNOWN: Self = Self([0; BOOT_ID_BYTES]);
}

impl Greeting {
    /// The greeting of a process that was built with this file.
    pub(crate) fn of(boot_id: BootId) -> Self {
        Self {
            version: VERSION,
            boot_id,
        }
    }

    /// The greeting as one packet.
    pub(crate) fn bytes(self) -> Vec<u8> {
        let Self { version, boot_id } = self;
        [&MAGIC[..], &version.to_le_bytes(), &boot_id.0].concat()
    }

    /// Parses one packet. Of another version only the version number is read.
    pub(crate) fn read(packet: &[u8]) -> Result<Self, Violation> {
        let no_greeting = Violation::NoGreeting;
        let rest = packet.strip_prefix(&MAGIC).ok_or(no_greeting)?;
        let (version, rest) = rest.split_first_chunk().ok_or(no_greeting)?;
        let version = u32::from_le_bytes(*version);
        let boot_id = match rest.try_into() {
            Ok(boot_id) if version == VERSION => BootId(boot_id),
            Err(_) if version == VERSION => return Err(no_greeting),
            _ => BootId::UNKNOWN,
        };
        Ok(Self { version, boot_id })
    }
}

impl Assembly {
    /// Adds the next packet; returns the message when it is complete.
    pub(crate) fn add(&mut self, packet: &[u8]) -> Result<Option<Message>, Violation> {
        let bytes = packet.len();
        let (header, part) = packet
            .split_first_chunk()
            .filter(|(_, part)| (1..=PART_BYTES).contains(&part.len()))
            .ok_or(Violation::Packet { bytes })?;
        let to_come = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        let left = to_come.saturating_add(part.len());
        match self.missing {
            Some(expected) if expected != left => {
                return Err(Violation::OutOfStep {
                    expected,
                    found: left,
                });
            }
            None if left > MESSAGE_BYTES => return Err(Violation::TooLarge { bytes: left }),
            // Reserved at once: a buffer that grows leaves copies of secrets in memory.
            None => self.so_far.reserve_exact(left),
            Some(_) => {}
        }
        self.so_far.extend_from_slice(part);
        self.missing = Some(to_come);
        Ok((to_come == 0).then(|| std::mem::take(self).so_far))
    }
}

/// The packets of a message.
pub(crate) fn packets(message: &[u8]) -> impl Iterator<Item = Message> {
    let mut to_come = message.len();
    message.chunks(PART_BYTES).map(move |part| {
        to_come = to_come.saturating_sub(part.len());
        // At most `MESSAGE_BYTES`, so it fits.
        let header = u32::try_from(to_come).unwrap_or(u32::MAX).to_le_bytes();
        let mut packet = Message::new(Vec::with_capacity(HEADER_BYTES + part.len()));
        packet.extend_from_slice(&header);
        packet.extend_from_slice(part);
        packet
    })
}

/// Serializes a message into a buffer that never grows.
pub(crate) fn encode<T: Serialize>(words: &T) -> Result<Message, Violation> {
    let bytes = serialized_size(words).map_err(|_| Violation::Unwritable)?;
    if bytes > MESSAGE_BYTES {
        return Err(Violation::TooLarge { bytes });
    }
    let mut message = Message::new(vec![0; bytes]);
    postcard::to_slice(words, &mut message).map_err(|_| Violation::Unwritable)?;
    Ok(message)
}

/// Deserializes a message and rejects trailing bytes.
pub(crate) fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, Violation> {
    match postcard::take_from_bytes(message) {
        Ok((words, [])) => Ok(words),
        _ => Err(Violation::Unreadable),
    }
}

#[cfg(test)]
mod tests;

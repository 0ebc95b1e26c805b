//! Replaces the `:authority` of requests while their bytes arrive.
//!
//! gRPC clients on the C core (Python, C++, Ruby, PHP) name a Unix socket by its percent-encoded path, others by the path itself; the grammar of URIs
//! allows neither, and h2 rejects such a request with PROTOCOL_ERROR, without an option (hyperium/h2#442, #487; grpc/grpc#38142). This server does
//! not use the field. So each of its bytes is replaced by a letter, and lengths stay the same: no frame has to be rebuilt, and the field tables of
//! both sides (RFC 7541, 2.3.2) still agree, since a value never gets longer.
//!
//! Not replaced: a name in Huffman code, a name by its number in the dynamic table with a new value, and an empty value, which h2 rejects. No known
//! client sends them. Bytes that are not HTTP/2 are passed on, and h2 rejects them.

/// Length of the connection preface before the first frame (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;
/// Length of a frame's header (RFC 9113, 4.1).
const FRAME_HEADER_BYTES: usize = 9;
/// Types of frames that carry header fields, and flags of HEADERS (RFC 9113, 6.2 and 6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Bytes that the PRIORITY flag adds before the fields.
const PRIORITY_BYTES: usize = 5;

const NAME: &[u8] = b":authority";
/// The index of `:authority` in the static table (RFC 7541, A).
const NAME_INDEX: u8 = 1;
/// The Huffman bit before the length of a string (RFC 7541, 5.2).
const HUFFMAN: u8 = 0x80;
/// The replacement of each byte of a value.
const LETTER: u8 = b'x';

/// The state between two reads.
#[derive(Debug)]
pub(crate) struct Rewriter {
    /// Bytes to skip before the part.
    skipped: usize,
    part: Part,
    field: Field,
}

/// The current part of a frame.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The header, as far as it has arrived.
    Header {
        bytes: [u8; FRAME_HEADER_BYTES],
        filled: usize,
    },
    /// One byte with the length of the padding, followed by this many bytes before the fields.
    PadLength { payload: usize, before: usize },
    /// Fields, followed by this much padding.
    Fields { left: usize, padding: usize },
}

/// The position in the field list (RFC 7541, 6).
#[derive(Debug, Clone, Copy)]
enum Field {
    /// The next byte starts a field.
    Begin,
    /// Within an integer of several bytes, followed by a value or by the next field.
    Number {
        value_follows: bool,
    },
    /// The next byte starts the length of a name.
    NameLength,
    Name {
        length: Length,
        at: usize,
        matches: bool,
    },
    /// The next byte starts the length of a value.
    ValueLength {
        is_authority: bool,
    },
    Value {
        length: Length,
        is_authority: bool,
    },
}

/// The length of a string, both while it is decoded and while the bytes of the string pass (RFC 7541, 5.1).
#[derive(Debug, Clone, Copy)]
struct Length {
    left: usize,
    /// The shift for the bits of the next byte. None: the length is complete.
    shift: Option<u32>,
}

const FRAME: Part = Part::Header {
    bytes: [0; FRAME_HEADER_BYTES],
    filled: 0,
};

impl Default for Rewriter {
    fn default() -> Self {
        Self {
            skipped: PREFACE_BYTES,
            part: FRAME,
            field: Field::Begin,
        }
    }
}

impl Rewriter {
    /// Processes the next bytes of a connection, in pieces of any length.
    pub(crate) fn pass(&mut self, mut bytes: &mut [u8]) {
        loop {
            let skipped = self.skipped.min(bytes.len());
            self.skipped -= skipped;
            let behind = bytes.split_at_mut(skipped).1.split_first_mut();
            let Some((byte, rest)) = behind else {
                return;
            };
            self.byte(byte);
            bytes = rest;
        }
    }

    fn byte(&mut self, byte: &mut u8) {
        match &mut self.part {
            Part::Header { bytes, filled } => {
                if let Some(place) = bytes.get_mut(*filled) {
                    *place = *byte;
                }
                *filled += 1;
                if *filled == FRAME_HEADER_BYTES {
                    let header = *bytes;
                    self.frame(header);
                }
            }
            Part::PadLength { payload, before } => {
                let (payload, before) = (*payload, *before);
                self.fields(payload, before, usize::from(*byte));
            }
            Part::Fields { left, padding } => {
                self.field = self.field.next(byte);
                *left -= 1;
                if *left == 0 {
                    self.skipped = *padding;
                    self.part = FRAME;
                }
            }
        }
    }

    fn frame(&mut self, header: [u8; FRAME_HEADER_BYTES]) {
        let [high, middle, low, kind, flags, ..] = header;
        let [high, middle, low] = [high, middle, low].map(usize::from);
        let payload = high << 16 | middle << 8 | low;
        let has = |flag| flags & flag != 0;
        match kind {
            HEADERS => {
                self.field = Field::Begin;
                let before = if has(PRIORITY) { PRIORITY_BYTES } else { 0 };
                match payload.checked_sub(1) {
                    Some(payload) if has(PADDED) => self.part = Part::PadLength { payload, before },
                    _ => self.fields(payload, before, 0),
                }
            }
            CONTINUATION => self.fields(payload, 0, 0),
            _ => self.fields(payload, payload, 0),
        }
    }

    fn fields(&mut self, payload: usize, before: usize, padding: usize) {
        let left = payload.saturating_sub(before + padding);
        (self.skipped, self.part) = if left == 0 {
            (payload, FRAME)
        } else {
            (before, Part::Fields { left, padding })
        };
    }
}

impl Field {
    fn next(self, byte: &mut u8) -> Self {
        match self {
            Self::Begin => Self::begun(*byte),
            Self::Number { .. } if *byte & 0x80 != 0 => self,
            Self::Number {
                value_follows: true,
            } => Self::ValueLength {
                is_authority: false,
            },
            Self::Number {
                value_follows: false,
            } => Self::Begin,
            Self::NameLength => Self::name(Length::begun(*byte), 0, *byte & HUFFMAN == 0),
            Self::Name {
                length,
                at,
                matches,
            } if length.shift.is_some() => Self::name(length.after(*byte), at, matches),
            Self::Name {
                length,
                at,
                matches,
            } => Self::name(
                length.after(*byte),
                at + 1,
                matches && NAME.get(at) == Some(byte),
            ),
            Self::ValueLength { is_authority } => {
                let length = Length::begun(*byte);
                if is_authority {
                    *byte &= !HUFFMAN;
                }
                Self::value(length, is_authority)
            }
            Self::Value {
                length,
                is_authority,
            } => {
                let next = Self::value(length.after(*byte), is_authority);
                if is_authority && length.shift.is_none() {
                    *byte = LETTER;
                }
                next
            }
        }
    }

    fn begun(byte: u8) -> Self {
        let (prefix, value_follows) = match byte {
            0x80.. => (0x7f, false),
            0x40.. => (0x3f, true),
            // A change of the table's size.
            0x20.. => (0x1f, false),
            _ => (0x0f, true),
        };
        match byte & prefix {
            number if number == prefix => Self::Number { value_follows },
            _ if !value_follows => Self::Begin,
            0 => Self::NameLength,
            index => Self::ValueLength {
                is_authority: index == NAME_INDEX,
            },
        }
    }

    fn name(length: Length, at: usize, matches: bool) -> Self {
        if length.is_over() {
            let is_authority = matches && at == NAME.len();
            return Self::ValueLength { is_authority };
        }
        Self::Name {
            length,
            at,
            matches,
        }
    }

    fn value(length: Length, is_authority: bool) -> Self {
        if length.is_over() {
            return Self::Begin;
        }
        Self::Value {
            length,
            is_authority,
        }
    }
}

impl Length {
    fn begun(byte: u8) -> Self {
        let left = usize::from(byte & !HUFFMAN);
        Self {
            left,
            shift: (left == usize::from(!HUFFMAN)).then_some(0),
        }
    }

    /// The state after one more byte, of the length or of the string.
    fn after(self, byte: u8) -> Self {
        let Some(shift) = self.shift else {
            let left = self.left.saturating_sub(1);
            return Self { left, ..self };
        };
        let bits = usize::from(byte & 0x7f).checked_shl(shift);
        Self {
            left: self.left.saturating_add(bits.unwrap_or(usize::MAX)),
            shift: (byte & 0x80 != 0).then_some(shift.saturating_add(7)),
        }
    }

    fn is_over(self) -> bool {
        self.left == 0 && self.shift.is_none()
    }
}

#[cfg(test)]
mod tests;

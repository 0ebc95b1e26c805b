//! Messages that are known by their descriptor only, on gRPC's way.

use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Sends any message, reads those of one kind.
pub(super) struct MessageCodec {
    output: MessageDescriptor,
}

pub(super) struct MessageEncoder;

pub(super) struct MessageDecoder {
    output: MessageDescriptor,
}

impl MessageCodec {
    pub(super) fn new(output: MessageDescriptor) -> Self {
        Self { output }
    }
}

impl Codec for MessageCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = MessageEncoder;
    type Decoder = MessageDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        MessageEncoder
    }

    fn decoder(&mut self) -> Self::Decoder {
        MessageDecoder {
            output: self.output.clone(),
        }
    }
}

impl Encoder for MessageEncoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, item: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer)
            .map_err(|error| Status::internal(format!("the request cannot be encoded: {error}")))
    }
}

impl Decoder for MessageDecoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        DynamicMessage::decode(self.output.clone(), buffer)
            .map(Some)
            .map_err(|error| Status::internal(format!("the answer cannot be decoded: {error}")))
    }
}

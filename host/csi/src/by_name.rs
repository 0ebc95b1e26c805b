//! Makes one call by its name, with its request as JSON: for a person who tests a plugin, not for a sidecar. It is a separate module because the call
//! does not arrive by a socket; after that it is handled as any call, by the same services, with the same errors.
//!
//! ```text
//! name, JSON ─▶ request ─▶ a message of CSI ─▶ the services (codec) ─▶ messages of CSI ─▶ JSON
//! ```
//!
//! It knows CSI by its descriptors alone: no RPC has its own code here. It never shows a request, which may contain secrets.

mod request;

pub use request::RequestError;

use crate::measure::CallMetrics;
use crate::rpc::RpcHandler;
use crate::service::{path, route};
use crate::wire::DESCRIPTOR_SET;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde_json::Value;
use std::sync::Arc;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};
use tower::service_fn;
use wasmount_core::driver::Driver;
use wasmount_core::rpc::Rpc;

/// A valid call that was not made yet.
pub struct NamedCall {
    rpc: Rpc,
    path: PathAndQuery,
    method: MethodDescriptor,
    message: DynamicMessage,
}

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedAnswer {
    /// gRPC's number of the code; 0 is OK.
    pub code: i32,
    /// Its name as the CSI specification writes it, such as `NOT_FOUND`.
    pub code_name: &'static str,
    /// The message of the error; empty with OK.
    pub message: String,
    /// The answer's messages as JSON: one for most calls, several for a stream, none for a call that failed at once.
    pub responses: Vec<Value>,
}

impl NamedCall {
    /// Parses a call such as `CreateVolume`, or `csi.v1.Controller/CreateVolume`, and its request in protobuf's JSON: fields as `volumeId` or
    /// `volume_id`.
    pub fn parse(name: &str, request: &Value) -> Result<Self, RequestError> {
        let pool = DescriptorPool::decode(DESCRIPTOR_SET).map_err(|_| RequestError::Descriptors)?;
        let rpc = request::rpc(name)?;
        let service = format!("csi.v1.{}", rpc.service());
        let method = pool
            .get_service_by_name(&service)
            .and_then(|service| service.methods().find(|method| method.name() == rpc.name()))
            .ok_or(RequestError::Descriptors)?;
        Ok(Self {
            rpc,
            path: path(rpc).parse().map_err(|_| RequestError::Descriptors)?,
            message: request::message(method.input(), request)?,
            method,
        })
    }

    /// The RPC.
    pub fn rpc(&self) -> Rpc {
        self.rpc
    }

    /// Makes the call, as a client without a deadline would.
    pub async fn make(self, driver: Arc<Driver>) -> NamedAnswer {
        let mut responses = Vec::new();
        let (code, message) = match self.answers(driver, &mut responses).await {
            Ok(()) => (Code::Ok, String::new()),
            Err(status) => (status.code(), status.message().to_owned()),
        };
        NamedAnswer {
            code: code as i32,
            code_name: code_name(code),
            message,
            responses,
        }
    }

    async fn answers(self, driver: Arc<Driver>, responses: &mut Vec<Value>) -> Result<(), Status> {
        let handler = RpcHandler::new(driver, CallMetrics::default());
        let service = service_fn(|request| Box::pin(route(handler.clone(), request)));
        let mut client = Grpc::new(service);
        let codec = MessageCodec(self.method.output());
        let Ok(()) = client.ready().await;
        // A unary call is handled as a stream that ends after one message.
        let answers = client.server_streaming(Request::new(self.message), self.path, codec);
        let mut answers = answers.await?.into_inner();
        while let Some(answer) = answers.message().await? {
            responses.push(to_json(&answer)?);
        }
        Ok(())
    }
}

/// Sends any message, receives messages of one descriptor.
#[derive(Clone)]
struct MessageCodec(MessageDescriptor);

impl Codec for MessageCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for MessageCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, item: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer)
            .map_err(|error| Status::internal(format!("the request cannot be encoded: {error}")))
    }
}

impl Decoder for MessageCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        DynamicMessage::decode(self.0.clone(), buffer)
            .map(Some)
            .map_err(|error| Status::internal(format!("the answer cannot be decoded: {error}")))
    }
}

/// Fields by their names in the specification; only fields that are set.
fn to_json(message: &DynamicMessage) -> Result<Value, Status> {
    let options = SerializeOptions::new().use_proto_field_name(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|error| Status::internal(format!("an answer cannot be shown as JSON: {error}")))
}

/// The code's name as in the gRPC specification.
fn code_name(code: Code) -> &'static str {
    let mut all = wasmount_core::code::Code::ALL.iter();
    let named = all.find(|each| each.number() == code as i32);
    named.map_or("OK", |each| each.name())
}
